"""Entry point of `duologue`: parse the command line, then import and run the one command that was given."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from duologue.cli.console.safe_output import protect_streams
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.cli.parser import make_parser
from duologue.cli.parsers.recordings import with_default_subcommand

FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of the errors of a disk that takes nothing more."""


WRONG = {
    "connect": "connect needs either a URL or a command after `--`",
    "tap": "tap needs a command after `--`, or `--agent NAME|URL`",
    "trace": "replay --as client needs a command after `--`, or `--agent NAME|URL`; --as agent accepts neither",
    "dev": "dev needs a Python file, MODULE:NAME, or a command after `--`",
    "agent": "`--dialect` cannot be combined with `--scenario` or `--profile`, which are sent as they are",
    "run": "give either a prompt or `-f FILE`, not both",
}
"""Wrong combinations of arguments of each command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    protect_streams()
    given = list(sys.argv[1:] if argv is None else argv)
    own, command_line = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    if own[:1] == ["help"]:
        own = [*own[1:3], "--help"]
    elif own == ["version"]:
        own = ["--version"]
    parser, commands = make_parser(own)
    own = with_default_subcommand(own, commands["trace"])
    if own and not own[0].startswith("-") and own[0] not in commands:
        from duologue.cli.mistakes import unknown_command

        parser.error(unknown_command(own, commands))
    chosen, rest = parser.parse_known_args(own)
    chosen.command_line = command_line
    parser = commands.get(chosen.command, parser)
    if rest:
        from duologue.cli.mistakes import unknown_arguments

        parser.error(unknown_arguments(own, chosen.command, rest, parser._option_string_actions))
    if chosen.command is None:
        parser.print_help()
        return 0
    problem = _problem(chosen, has_command="--" in given)
    if problem is not None:
        parser.error(problem)
    # Each command is a function in the module of its name, which is imported only now; subcommands name theirs.
    module, _, function = getattr(chosen, "function", f"{chosen.command}:{chosen.command}").partition(":")
    command = getattr(import_module(f"duologue.cli.commands.{module}"), function)
    try:
        code: int = command(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return ExitCode.BROKEN_PIPE
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
        _discard_output()
        sys.stderr.write(f"duologue: cannot write the output: {error.strerror}\n")
        return ExitCode.AGENT_ERROR
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as error:
        return _report(error)
    return code


def _discard_output() -> None:
    """Discard what is left for stdout: Python flushes it again at exit, and that must not fail a second time."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: Exception) -> ExitCode:
    """Print an error that a command expects, and return its exit code; raise any other."""
    from duologue.cli.error_report import code_of_error, explain, next_step
    from duologue.errors import ConnectError, DuologueError

    if not isinstance(error, DuologueError | UsageError):
        raise error
    step = next_step(error) if isinstance(error, ConnectError) else ""
    sys.stderr.write(f"duologue: {explain(error)}\n  {step}\n" if step else f"duologue: {error}\n")
    return code_of_error(error)


def _problem(chosen: argparse.Namespace, has_command: bool) -> str | None:
    """Describe a wrong combination of arguments; None if they fit together."""
    action = getattr(chosen, "action", None)
    is_replay = bool(action == "replay")
    is_checked = chosen.command == "check" and action in ("agent", "client")
    is_evaluated = chosen.command == "eval" and action in ("run", "capture", "trials")
    takes_agent = chosen.command in ("run", "chat", "serve", "sessions", "tap", "proxy") or is_replay or is_checked
    takes_agent = takes_agent or is_evaluated
    if has_command and not takes_agent and chosen.command not in ("connect", "dev"):
        return f"{chosen.command} accepts no command after `--`"
    if has_command and not chosen.command_line:
        return "there is no command after `--`"
    if takes_agent and chosen.command_line and chosen.agent is not None:
        return "give either `--agent` or a command after `--`, not both"
    if takes_agent and chosen.lock is not None and chosen.agent is None:
        return "`--lock` needs the name of one of its agents: `--agent NAME`"
    if chosen.command == "sessions":
        return _problem_of_sessions(chosen)
    wrong = {
        "connect": lambda: (chosen.url is None) != has_command,
        "tap": lambda: chosen.agent is None and not has_command,
        "trace": lambda: is_replay and (chosen.agent is None and not has_command) is (chosen.side == "client"),
        "dev": lambda: chosen.source is None and not has_command,
        "agent": lambda: chosen.dialect is not None and (chosen.scenario or chosen.profile) is not None,
        "run": lambda: chosen.prompt is not None and chosen.prompt_file is not None,
    }
    return WRONG[chosen.command] if chosen.command in wrong and wrong[chosen.command]() else None


def _problem_of_sessions(chosen: argparse.Namespace) -> str | None:
    is_about_all = chosen.action in ("list", "prune")
    if (chosen.what is None) != is_about_all:
        return f"sessions {chosen.action} {'accepts no' if is_about_all else 'needs an'} argument"
    if (chosen.older_than is not None) != (chosen.action == "prune"):
        return "`sessions prune` needs `--older-than DAYS`; the other actions do not accept it"
    return None


if __name__ == "__main__":
    sys.exit(main())
