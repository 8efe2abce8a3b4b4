"""The user's permission rules: `[permissions]` of the configuration file, and where decisions are stored."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from duologue.client.permissions.policy import Permissions
from duologue.config.agents import config_file, read_config
from duologue.private_files import FILE_MODE, make_private_directory, user_directory

EXAMPLE_CONFIG = """\
# The configuration of duologue. Lines that begin with # are examples and explanations. `duologue doctor` checks it.

# Agents that `--agent NAME` starts or connects to; `duologue agents` lists them.
#
# [agents.reviewer]
# command = "gemini"
# args = ["--acp"]
# env = { LOG_LEVEL = "warn" }
#
# [agents.team]
# url = "wss://agents.example.com/acp"
# headers = { X-Team = "blue" }

# MCP servers that `--mcp NAME` offers to an agent.
#
# [mcp_servers.git]
# command = "mcp-server-git"
# args = ["--repository", "."]

# Your own secrets, which are removed from recordings: regular expressions.
#
# [recordings]
# redact = ['emp-\\d+', '[\\w.]+@corp\\.example']

# What agents may do. Each kind has a decision (allow, ask, reject) or a table of patterns with a decision each; "*"
# matches everything else. Reject beats ask, and ask beats allow. This file must be private: chmod 600.

[permissions]
read = "allow"          # inside the directories of a session
search = "allow"
think = "allow"
secrets = "ask"         # reading files that probably contain secrets
protected = "ask"       # changing hooks, settings and startup files, which other programs execute

[permissions.edit]
"*" = "ask"

[permissions.execute]
"git status" = "allow"
"git diff" = "allow"
"git log *" = "allow"   # with arguments that neither execute nor write anything; few commands may end in " *"
"*" = "ask"
"""


def state_folder() -> Path:
    """Return the directory for the programs' own files: `duologue` in the user's state directory."""
    return user_directory("XDG_STATE_HOME", ".local/state")


def remembered_decisions_file() -> Path:
    """Return the file of remembered decisions in `state_folder()`.

    Earlier versions called it `answers.jsonl`. If only that name exists, the new one becomes a second name of the same
    file, so that what a program of either version appends is seen by the other and nothing has to be copied.
    """
    path, earlier = state_folder() / "remembered-decisions.jsonl", state_folder() / "answers.jsonl"
    try:
        os.link(earlier, path)
    except (FileExistsError, FileNotFoundError):
        return path
    except OSError:  # the file system has no hard links
        return path if path.exists() else earlier
    return path


def rules_files() -> list[Path]:
    """Return the configuration file if it has rules, or if it cannot be parsed: then its error is reported.

    Files inside a project are never used: an agent could write them.

    Raises:
        ValueError: The file has an unknown table or key.
    """
    try:
        return [config_file()] if "permissions" in read_config() else []
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return [config_file()]


def load_permissions(**options: Any) -> Permissions:
    """Return the user's rules; decisions are stored in `state_folder()` unless `options` say otherwise.

    Raises:
        ValueError: The file is not private, or contains an invalid rule.
        OSError: It cannot be read.
    """
    defaults = {"audit": state_folder() / "audit.jsonl", "memory": remembered_decisions_file()}
    return Permissions.from_file(*rules_files(), defaults=defaults, **options)


def write_example_config() -> Path:
    """Make a configuration file with examples and initial rules, readable by its owner only.

    Raises:
        FileExistsError: The file exists already.
    """
    path = config_file()
    make_private_directory(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(EXAMPLE_CONFIG)
    return path
