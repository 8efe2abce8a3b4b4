"""The user's own rules: `[permissions]` of the configuration file, and where answers and decisions are kept."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from duologue.client.permissions.policy import Permissions
from duologue.config.agents import config_file

__all__ = ["load_permissions", "rules_files", "state_folder", "write_first_rules"]

FIRST_RULES = """\
# What agents may do. Each kind has a word (allow, ask, reject) or a table of patterns with a word each; "*" is for all
# others. Reject beats ask, and ask beats allow. Keep this file to yourself: chmod 600.

[permissions]
read = "allow"          # inside the directories of a session
search = "allow"
think = "allow"
secrets = "ask"         # reading files that look as if they held secrets
protected = "ask"       # changing hooks, settings and start files, which other programs act on

[permissions.edit]
"*" = "ask"

[permissions.execute]
"git status" = "allow"
"git diff" = "allow"
"git log *" = "allow"   # with arguments that run and write nothing; few commands may end in " *"
"*" = "ask"
"""


def state_folder() -> Path:
    """Where programs keep what is theirs: `duologue` in the user's state directory."""
    home = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local" / "state") / "duologue"


def rules_files() -> list[Path]:
    """The configuration file, if it has rules; one that cannot be understood counts, so that somebody is told.

    Nothing inside a project is looked for: rules that an agent can write would be the agent's rules.
    """
    path = config_file()
    try:
        return [path] if "permissions" in tomllib.loads(path.read_text("utf-8")) else []
    except FileNotFoundError:
        return []
    except ValueError:
        return [path]


def load_permissions(**options: Any) -> Permissions:
    """The user's rules; decisions and remembered answers are kept in `state_folder()` unless something else is said.

    Raises:
        ValueError: The file is not the user's alone, or says something that is no rule.
        OSError: It cannot be read.
    """
    kept = {"audit": state_folder() / "decisions.jsonl", "memory": state_folder() / "answers.jsonl"}
    return Permissions.from_file(*rules_files(), defaults=kept, **options)


def write_first_rules() -> Path:
    """Make a configuration file with rules to start from, readable by its owner alone.

    Raises:
        FileExistsError: There is one.
    """
    path = config_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(FIRST_RULES)
    return path
