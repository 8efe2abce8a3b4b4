"""The entry point: reads the command line, then loads the one subcommand that was asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import duologue

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = _parser()
    chosen = parser.parse_args(argv)
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


if __name__ == "__main__":
    sys.exit(main())
