"""The user's recordings: their directory, and what the configuration file adds to the secrets removed from them.

[recordings]
redact = ['emp-\\d+', '[\\w.]+@corp\\.example']
"""

from __future__ import annotations

import os
import secrets
import tomllib
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from msgspec import Struct, ValidationError, convert

from duologue.config.agents import config_file, read_config
from duologue.errors import StartError
from duologue.private_files import make_private_directory, user_directory
from duologue.recording.patterns import UserPattern
from duologue.recording.redaction import Redactor, environment_secrets

SUFFIX = ".acp"


def recordings_folder() -> Path:
    """Return the directory of recordings; it may not exist."""
    return user_directory("XDG_DATA_HOME", ".local/share") / "recordings"


def new_recording(folder: Path | None = None) -> Path:
    """Return the path of a new recording, named by the time; its directory is made for its owner only.

    Args:
        folder: The directory; by default that of the user's recordings.

    Raises:
        OSError: The directory cannot be made.
    """
    folder = folder or recordings_folder()
    make_private_directory(folder)
    now = datetime.now().astimezone()
    return folder / f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}{SUFFIX}"


def find_recordings() -> list[Path]:
    """Return the recordings of the directory, newest first."""
    found = [path for path in recordings_folder().glob(f"*{SUFFIX}") if path.is_file()]
    return sorted(found, key=lambda path: path.name, reverse=True)


def named_recording(wanted: str) -> Path:
    """Return the path that is meant by a path, or by the name of a recording of the directory or the start of its name.

    A path that exists comes first. What is neither is returned as a path, which cannot be opened.

    Raises:
        ValueError: More than one name begins so.
    """
    path = Path(wanted)
    if path.exists() or len(path.parts) != 1:
        return path
    known = find_recordings()
    found = [each for each in known if wanted in (each.name, each.stem)]
    found = found or [each for each in known if each.name.startswith(wanted)]
    if len(found) > 1:
        names = ", ".join(each.name for each in found[:3])
        raise ValueError(f"{len(found)} recordings begin with {wanted!r}: {names}{', …' * (len(found) > 3)}")
    return found[0] if found else path


class _Settings(Struct, forbid_unknown_fields=True):
    redact: list[str] = []


def configured_patterns() -> list[str]:
    """Return the regular expressions of `redact` in `[recordings]` of the configuration file.

    Raises:
        StartError: The file cannot be read, or has something else there.
    """
    path = config_file()
    try:
        patterns = convert(read_config().get("recordings", {}), _Settings).redact
    except ValidationError as error:
        wanted = "must have nothing but `redact`, a list of regular expressions"
        raise StartError(f"{path}: [recordings] {wanted}: {error}") from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StartError(f"cannot read {path}: {error}") from None
    except ValueError as error:
        raise StartError(str(error)) from None
    for pattern in patterns:
        try:
            UserPattern(pattern)
        except ValueError as error:
            raise StartError(f"{path}: [recordings] redact: {error}") from None
    return patterns


def user_redactor(patterns: Iterable[str] = ()) -> Redactor:
    """Return what removes the user's secrets: of the environment, of the configuration file, and of further patterns.

    Raises:
        StartError: The configuration file cannot be read.
        ValueError: A further pattern cannot be used as one.
    """
    return Redactor([*configured_patterns(), *patterns], values=environment_secrets(os.environ))
