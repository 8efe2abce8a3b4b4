"""Options that several commands of `duologue` share."""

from __future__ import annotations

import argparse
import re
from typing import Any

V2 = "use version 2 of the protocol (a draft) if the agent supports it"
DIALECTS = ("seed-003", "seed-004")
DIALECT = "older dialect of the protocol that the agent uses"

HIDDEN = frozenset({("duologue daemon", "job")})
"""Commands and choices of them that only the program itself uses."""


class CommandParser(argparse.ArgumentParser):
    """A parser that suggests the choice that is probably meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices or (self.prog, value) in HIDDEN:
            return
        from duologue.suggestion import suggestion

        choices = [str(choice) for choice in action.choices]
        listed = ", ".join(map(repr, choices))
        near = suggestion(str(value), choices)
        raise argparse.ArgumentError(action, f"invalid choice: {value!r} (choose from {listed}){near}")


def add_repeatable(parser: argparse._ActionsContainer, flag: str, metavar: str, meaning: str) -> None:
    """Add an option that may be given several times."""
    parser.add_argument(flag, action="append", default=[], metavar=metavar, help=meaning)


def add_seconds(parser: argparse._ActionsContainer, flag: str, meaning: str, default: float | None = None) -> None:
    """Add an option for a time."""
    meaning += "" if default is None else f" (default: {default:g})"
    parser.add_argument(flag, type=seconds, default=default, metavar="SECONDS", help=meaning)


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the agent, start it or connect to it."""
    group = parser.add_argument_group("agent")
    group.add_argument(
        "--agent", metavar="NAME|URL", help="name (`duologue agents` lists them), NAME@VERSION, or URL of the agent"
    )
    add_lock_option(group)
    add_start_options(group)
    add_remote_options(parser)


def add_lock_option(parser: argparse._ActionsContainer) -> None:
    """Add `--lock`."""
    parser.add_argument("--lock", metavar="FILE", help="use this lock file instead of your own")


def add_start_options(group: argparse._ArgumentGroup) -> None:
    """Add the options with which an agent is started."""
    group.add_argument("--v2", action="store_true", help=V2)
    add_dialect_option(group)
    group.add_argument("--cwd", metavar="DIR", default=".", help="working directory (default: this directory)")
    add_repeatable(group, "--env", "NAME=VALUE", "set an environment variable of the agent")
    group.add_argument("--login", metavar="METHOD", help="log in first, by this method of the agent")


def add_dialect_option(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add `--dialect`."""
    parser.add_argument("--dialect", choices=DIALECTS, help=DIALECT)


def add_remote_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the connection to a remote agent."""
    group = parser.add_argument_group("remote agent")
    group.add_argument(
        "--token", metavar="TOKEN", help="bearer token for the server (or set DUOLOGUE_TOKEN, or #token=… in the URL)"
    )
    add_repeatable(group, "--header", "NAME: VALUE", "send this HTTP header")
    trust = group.add_mutually_exclusive_group()
    trust.add_argument("--ca", metavar="FILE", help="CA certificates (PEM) to trust in addition to the system's")
    trust.add_argument("--insecure", action="store_true", help="do not verify TLS certificates (unsafe)")


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for a session: which one, how it begins, and what is shown of it."""
    group = parser.add_argument_group("session")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--continue", dest="continue_", action="store_true", help="continue the newest session of this directory"
    )
    which.add_argument("--session", metavar="ID", help="continue this session")
    which.add_argument(
        "-s",
        "--name",
        metavar="NAME",
        help="continue the session that has this name for the agent and the directory, or open it",
    )
    group.add_argument(
        "--mode", metavar="MODE", help="set this mode first: its id, its name, or the last word of its id"
    )
    add_repeatable(group, "--set", "NAME=VALUE", "change a setting of the agent first")
    server = "offer an MCP server to the agent: NAME=COMMAND, NAME=URL, a JSON file, or a name of the configuration"
    add_repeatable(group, "--mcp", "SERVER", server)
    stall = "report an agent that is inactive for this long, and cancel the turn after twice as long"
    add_seconds(group, "--stall-timeout", stall)
    group.add_argument("--verbose", action="store_true", help="show the results of tools in full")
    group.add_argument(
        "--record",
        nargs="?",
        const="",
        metavar="FILE",
        help="record every message in this file, without secrets (default: a new file for `duologue trace`)",
    )


def add_stderr_option(parser: argparse.ArgumentParser) -> None:
    """Add `--stderr`."""
    parser.add_argument(
        "--stderr", action="store_true", help="show what the agent writes to stderr (by default only when it fails)"
    )


def add_permission_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide what the agent may do."""
    group = parser.add_argument_group("permissions")
    answers = group.add_mutually_exclusive_group()
    answers.add_argument(
        "--ask", action="store_true", help="ask about everything except reading (default on a terminal)"
    )
    answers.add_argument("--read-only", action="store_true", help="allow only reading (default without a terminal)")
    answers.add_argument("--yes", action="store_true", help="allow all commands, and all changes inside the directory")
    answers.add_argument("--deny", action="store_true", help="allow nothing")
    add_repeatable(group, "--rules", "FILE", "read rules from a TOML file; the strictest rule applies")


def seconds(text: str) -> float:
    """Parse a positive number of seconds."""
    return _positive(text, "seconds", float("inf"))


def days(text: str) -> float:
    """Parse a positive number of days."""
    return _positive(text, "days", 36_500.0)


def _positive(text: str, unit: str, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < most:
        raise argparse.ArgumentTypeError(f"expected a positive number of {unit}, not {text!r}")
    return number


def whole_number(text: str) -> int:
    """Return a number of something, which may be 0."""
    if re.fullmatch(r"[0-9]{1,6}", text) is None:
        raise argparse.ArgumentTypeError(f"expected a whole number, not {text!r}")
    return int(text)


def count(text: str) -> int:
    """Return a number of something of which there must be one."""
    number = whole_number(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1, not {text}")
    return number


def seed(text: str) -> int:
    """Return the seed of what is random."""
    if re.fullmatch(r"[0-9]{1,18}", text) is None:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0, not {text!r}")
    return int(text)
