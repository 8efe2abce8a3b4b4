"""Define the commands that make and read recordings, but not what they do."""

from __future__ import annotations

import argparse

from duologue.cli.options import add_lock_option, add_remote_options, add_repeatable, add_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

KINDS = ("request", "response", "error", "notification", "invalid", "stderr", "exit", "gap")


def add_tap(commands: Commands) -> None:
    """Add `tap`."""
    tap = commands.add_parser(
        "tap",
        usage="duologue tap [OPTION ...] -- COMMAND ...\n       duologue tap [OPTION ...] --agent NAME|URL",
        help="record what an editor and an agent send each other",
        description="Start an agent in place of an editor's own command, pass every byte on unchanged, and record all "
        "messages without their secrets, with what the agent writes to stderr. Give this command to the editor.",
        epilog="example: duologue tap -o run.acp -- gemini --acp",
    )
    tap.add_argument(
        "-o", "--output", metavar="FILE", help="the recording (default: a new one in the user's data directory)"
    )
    add_repeatable(tap, "--redact", "REGEX", "remove matches of this regular expression from the recording, too")
    agent = tap.add_argument_group("agent")
    agent.add_argument(
        "--agent", metavar="NAME|URL", help="name (`duologue agents` lists them), NAME@VERSION, or URL of the agent"
    )
    add_lock_option(agent)
    add_repeatable(agent, "--env", "NAME=VALUE", "set an environment variable of the agent")
    add_remote_options(tap)
    tap.set_defaults(dialect=None)


def add_trace(commands: Commands) -> None:
    """Add `trace`."""
    trace = commands.add_parser(
        "trace",
        help="read a recording: every message, what it answers, and what is wrong with it",
        description="Show the messages of a recording that `tap`, `--record` or `connect(record=...)` has made: who "
        "received each, the request that a response answers and how long that took, and what does not match the "
        "schema of the protocol. With `--check` the exit code is 1 if a message does not.",
        epilog="examples: duologue trace run.acp --method 'session/*' --full; duologue trace run.acp --stats",
    )
    trace.add_argument("file", metavar="FILE", help="the recording")
    trace.add_argument("--stats", action="store_true", help="print figures instead of messages")
    trace.add_argument("--check", action="store_true", help="only messages that do not match the schema")
    trace.add_argument("--full", action="store_true", help="show messages whole")
    trace.add_argument("--follow", action="store_true", help="wait for more, until Ctrl-C")
    trace.add_argument("--json", action="store_true", help="print one JSON object per line")
    group = trace.add_argument_group("only messages")
    add_repeatable(group, "--method", "NAME", "of this method, or of its answers; `session/*` is a pattern")
    add_repeatable(group, "--session", "ID", "of this session; the beginning of its id is enough")
    group.add_argument("--to", choices=("agent", "client"), help="to this side")
    group.add_argument("--kind", action="append", default=[], choices=KINDS, help="of this kind (may be given again)")
    group.add_argument("--text", metavar="TEXT", help="that contain this text, in any case")
    add_seconds(group, "--since", "from this second of the recording on")
    add_seconds(group, "--until", "up to this second of the recording")
