"""The entry point: reads the command line, then loads the one subcommand that was asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import duologue

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = _parser()
    given = list(sys.argv[1:] if argv is None else argv)
    own, command_line = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    chosen = parser.parse_args(own)
    chosen.command_line = command_line
    if chosen.command == "run":
        from duologue.cli.run import run

        if (chosen.prompt is None) == (chosen.prompt_file is None):
            parser.error("run needs a prompt, or `-f FILE` (`-f -` for stdin), and not both")
        return run(chosen)
    if chosen.command == "agent":
        from duologue.builtin.agent import main as serve_builtin

        return serve_builtin(chosen)
    parser.print_help()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="duologue",
        description="The Agent Client Protocol in Python: agents and clients that talk.",
    )
    parser.add_argument("--version", action="version", version=f"duologue {duologue.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_run(commands)
    agent = commands.add_parser(
        "agent",
        help="the built-in agent on stdio, for editors and client developers",
        description="An agent without a model: every feature of the protocol on demand. Start it from an editor, or "
        "pipe JSON lines into it; `/help` as a prompt lists what it can do.",
    )
    agent.add_argument("--scenario", metavar="FILE", help="play a scripted conversation (TOML or YAML)")
    agent.add_argument("--sessions", metavar="DIR", help="keep sessions here (default: the user's data directory)")
    agent.add_argument("--login", action="store_true", help="refuse sessions until the client has logged in")
    agent.add_argument("--debug", action="store_true", help="put the text of unexpected errors into answers")
    return parser


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="one turn with an agent, for people and for scripts",
        description="Send one prompt to an agent and show what it does. The agent is a command after `--`, a name from "
        "the configuration, or the built-in one. Off a terminal, stdout is exactly what the agent says.",
        epilog='example: duologue run "fix the test" -- gemini --acp',
    )
    run.add_argument("prompt", nargs="?", metavar="PROMPT", help="what to say")
    run.add_argument("-f", dest="prompt_file", metavar="FILE", help="read the prompt from a file; `-` is stdin")
    run.add_argument("--agent", metavar="NAME", help="an agent from the configuration (default: the built-in one)")
    run.add_argument("--cwd", metavar="DIR", default=".", help="where the agent works (default: here)")
    run.add_argument("--file", action="append", default=[], metavar="PATH", help="attach a file or directory")
    run.add_argument("--image", action="append", default=[], metavar="PATH", help="attach a picture")
    run.add_argument("--mode", metavar="MODE", help="switch the session to this mode first")
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting first")
    run.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="set a variable for the agent")
    run.add_argument("--session", metavar="ID", help="go on with this session")
    run.add_argument("--continue", dest="continue_", action="store_true", help="go on with the newest session here")
    run.add_argument("--timeout", type=float, metavar="SECONDS", help="give up after this, start-up included")
    run.add_argument("--json", action="store_true", help="one event per line, with the frame it came in")
    answers = run.add_mutually_exclusive_group()
    answers.add_argument("--yes", action="store_true", help="permit everything")
    answers.add_argument("--ask", action="store_true", help="ask about everything but reading (default on a terminal)")
    answers.add_argument("--deny", action="store_true", help="permit nothing")
    answers.add_argument("--reads", action="store_true", help="permit reading only (default off a terminal)")


if __name__ == "__main__":
    sys.exit(main())
