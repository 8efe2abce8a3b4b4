"""Define `duologue trace replay`, but not what it does."""

from __future__ import annotations

import argparse

from duologue.cli.options import add_lock_option, add_remote_options, add_repeatable, add_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

TIMEOUT_SECONDS = 300.0


def add_replay(subcommands: Commands, add_recording: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add `replay`."""
    replay = subcommands.add_parser(
        "replay",
        usage="duologue trace replay FILE --as agent [OPTION ...]\n"
        "       duologue trace replay FILE --as client [OPTION ...] -- COMMAND ...\n"
        "       duologue trace replay FILE --as client [OPTION ...] --agent NAME|URL",
        help="play a recording: its agent to a client, or its client to an agent",
        description="`--as agent` is an agent on stdio that answers any client as the recorded agent did. `--as "
        "client` sends an agent what the recorded client sent, answers its requests as recorded, and reports where the "
        "agent deviates; the exit code is 1 if it does. Ids are adapted to the other side, and so are paths inside the "
        "working directory.",
        epilog='examples: duologue run "fix it" -- duologue trace replay run.acp --as agent; '
        "duologue trace replay run.acp --as client -- python agent.py",
    )
    replay.set_defaults(function="trace.replay:replay", v2=True, dialect=None)
    add_recording(replay)
    replay.add_argument("--as", dest="side", choices=("agent", "client"), required=True, help="the side to play")
    replay.add_argument(
        "--speed",
        type=_speed,
        metavar="max|original|FACTOR",
        help="as fast as possible, as recorded, or a factor such as 2 (default: max)",
    )
    timeout = "longest wait for a response of the other side, and longest pause that is repeated"
    add_seconds(replay, "--timeout", timeout, TIMEOUT_SECONDS)
    ignored = "do not compare members of this name, or this path, such as '$.result.modes*'"
    add_repeatable(replay, "--ignore", "NAME|PATH", ignored)
    agent = replay.add_argument_group("--as agent")
    agent.add_argument(
        "--strict", action="store_true", help="fail at the first message that the recorded client did not send"
    )
    agent.add_argument("--keep-paths", action="store_true", help="send recorded paths as they are")
    client = replay.add_argument_group("--as client")
    client.add_argument(
        "--compare",
        choices=("structure", "text"),
        default="structure",
        help="compare kinds of updates, order of tool calls and requests, results and errors; or texts, too "
        "(default: structure)",
    )
    client.add_argument("--json", action="store_true", help="print the report as JSON")
    client.add_argument("--agent", metavar="NAME|URL", help="name of the agent, NAME@VERSION, or its URL")
    add_lock_option(client)
    client.add_argument("--cwd", metavar="DIR", default=".", help="working directory (default: this directory)")
    add_repeatable(client, "--env", "NAME=VALUE", "set an environment variable of the agent")
    add_remote_options(replay)


def _speed(text: str) -> float | None:
    """Parse a speed: None for as fast as possible."""
    if text in ("max", "original"):
        return None if text == "max" else 1.0
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise argparse.ArgumentTypeError(f"expected max, original or a positive number, not {text!r}")
    return factor
