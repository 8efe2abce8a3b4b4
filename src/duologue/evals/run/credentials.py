"""Credentials that an agent gets: variables and files that are named, and whose values are removed from records."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct, structs, to_builtins

from duologue.evals.exceptions import EvalError
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.record.versioned_file import read_bounded
from duologue.recording.redaction import Redactor, environment_secrets

MASK = b"[removed]"
SHORTEST_SECRET = 8
"""Characters of the shortest value of a named variable that is removed from records."""
SHORTEST_IN_A_FILE = 16
"""Characters of the shortest text of a credential file that is removed: shorter ones are words such as names."""
MOST_CREDENTIAL_BYTES = 4 << 20
READ_ONLY = 0o400

_WORD = re.compile(rf"[^\s\"'=:,;]{{{SHORTEST_IN_A_FILE},}}")


class CredentialFile(Struct, frozen=True):
    """A file that is copied into the home directory of an agent.

    Attributes:
        source: The file.
        target: Its path below HOME.
    """

    source: Path
    target: str

    @classmethod
    def parse(cls, text: str) -> CredentialFile:
        """Return the file of `FILE`, which has the same place below HOME, or of `FILE:PATH`.

        Raises:
            EvalError: There is no such file, or its place is not known.
        """
        name, _, target = text.partition(":")
        source = Path(name).expanduser().absolute()
        if not source.is_file():
            raise EvalError(f"there is no credential file {name!r}")
        if not target:
            if not source.is_relative_to(Path.home()):
                raise EvalError(
                    f"{name!r} is not in your home directory: say where the agent looks for it, "
                    f"as in {name}:.config/agent/key.json"
                )
            target = str(source.relative_to(Path.home()))
        if Path(target).is_absolute() or ".." in Path(target).parts:
            raise EvalError(f"{target!r} is not a path below the home directory of the agent")
        return cls(source, target)


class Credentials:
    """The variables and files that agents are given, and the secrets in them, which are not recorded.

    Args:
        names: Names of environment variables.
        files: Files to copy.
        configured: Variables that the configuration of the agent has; the values of those whose names say secret are
            removed.

    Raises:
        EvalError: A variable is not set, or a file cannot be read.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        files: Sequence[CredentialFile] = (),
        configured: Mapping[str, str] | None = None,
    ) -> None:
        self.names = list(dict.fromkeys(names))
        self.files = list(files)
        self._configured = dict(configured or {})
        missing = [name for name in self.names if name not in os.environ]
        if missing:
            raise EvalError(
                f"the environment variable {missing[0]} is named for the agent, and it is not set; "
                "set it, or leave its name out"
            )
        values = (value for value in self.environment().values() if len(value) >= SHORTEST_SECRET)
        secrets = {part for value in [*values, *environment_secrets(self._configured)] for part in _parts(value)}
        for file in self.files:
            secrets |= set(_texts_of(read_bounded(file.source, MOST_CREDENTIAL_BYTES)))
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._redactor = Redactor(values=[*self._secrets, *environment_secrets(os.environ)])

    def environment(self) -> dict[str, str]:
        """Return the variables with their values."""
        return {name: os.environ[name] for name in self.names if name in os.environ}

    def extended(self, names: Iterable[str] = (), configured: Mapping[str, str] | None = None) -> Credentials:
        """Return the same with further variables, and with those that the configuration of an agent has."""
        more = [name for name in names if name not in self.names]
        if not more and not configured:
            return self
        return Credentials([*self.names, *more], self.files, {**self._configured, **(configured or {})})

    @property
    def all_names(self) -> list[str]:
        """Names of the variables that the agent gets, those of its configuration included."""
        return list(dict.fromkeys([*self.names, *self._configured]))

    @property
    def patterns(self) -> list[str]:
        """Regular expressions of the secrets, for a recorder."""
        return [re.escape(value) for value in self._secrets]

    def copy_to(self, home: Path) -> None:
        """Copy the files, readable for their owner only."""
        for file in self.files:
            target = home / file.target
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.source, target)
            target.chmod(READ_ONLY)

    def removed_from(self, text: str) -> str:
        """Return a text without secrets."""
        return str(self._redactor.redact(text))

    def removed_from_step(self, step: TrajectoryStep) -> TrajectoryStep:
        """Return a step without secrets; its text may be put together of pieces that showed none."""
        fields = {name: value for name, value in to_builtins(step).items() if name != "type"}
        return structs.replace(step, **self._redactor.redact(fields))

    def remove_from_bytes(self, content: bytes) -> bytes:
        """Return content without the secrets of the named variables and files."""
        for value in self._secrets:
            content = content.replace(value.encode(), MASK)
        return content

    def remove_from_files(self, root: Path) -> None:
        """Remove the secrets of the named variables and files from all files below a directory."""
        if not self._secrets or not root.is_dir():
            return
        for folder, _, names in os.walk(root):
            for path in (Path(folder, name) for name in names):
                if path.is_symlink() or not path.is_file():
                    continue
                content = path.read_bytes()
                if (masked := self.remove_from_bytes(content)) != content:
                    path.chmod(path.stat().st_mode | 0o600)
                    path.write_bytes(masked)


def clean_command(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return a command for a record: without secrets, also those that are values of its environment."""
    values = environment_secrets(environment)
    return cast("list[str]", Redactor(values=values).redact(list(command)))


def _texts_of(content: bytes) -> Iterator[str]:
    """Yield the texts of a credential file that may be secrets."""
    try:
        yield from _strings(msgspec.json.decode(content))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        yield from _WORD.findall(content.decode("utf-8", "replace"))


def _parts(value: str) -> Iterator[str]:
    """Yield a secret, and the long words of one with several lines: in JSON or in a patch its lines end otherwise."""
    yield value
    if "\n" in value:
        yield from _WORD.findall(value)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= SHORTEST_IN_A_FILE:
            yield from _parts(value)
    elif isinstance(value, dict):
        for each in cast("dict[str, Any]", value).values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _strings(each)
