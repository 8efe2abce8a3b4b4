"""Define the commands that make and read recordings, but not what they do."""

from __future__ import annotations

import argparse

from duologue.cli.options import (
    add_lock_option,
    add_remote_options,
    add_repeatable,
    add_seconds,
    days,
)
from duologue.cli.parsers.recording_argument import add_recording

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

LOG_FORMATS = ("zed", "acp-devtools", "conductor", "python-sdk", "acpx")
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
        "-o",
        "--output",
        metavar="FILE",
        help="the recording, appended to if it exists (default: a new one in the user's data directory)",
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
    """Add `trace`, but not its subcommands."""
    trace = commands.add_parser(
        "trace",
        usage="duologue trace FILE [OPTION ...]\n       duologue trace SUBCOMMAND ...",
        help="read recordings: every message, what it answers, and what is wrong with it",
        description="Read recordings that `tap`, `--record` or `connect(record=...)` has made. `duologue trace FILE` "
        "is short for `duologue trace show FILE`. Without a subcommand, list the recordings in the user's data "
        "directory.",
        epilog="examples: duologue trace run.acp --method 'session/*' --full; duologue trace run.acp --stats",
    )
    trace.set_defaults(function="trace.catalog:list_recordings", json=False, this_directory=False)


def add_trace_subcommands(trace: argparse.ArgumentParser) -> None:
    """Add the subcommands of `trace`."""
    from duologue.cli.parsers.inspector import add_trace_mcp, add_trace_serve
    from duologue.cli.parsers.recording_analysis import add_analysis
    from duologue.cli.parsers.replay import add_replay

    subcommands = trace.add_subparsers(prog="duologue trace", dest="action", metavar="SUBCOMMAND", title="subcommands")
    _add_show(subcommands)
    add_analysis(subcommands)
    _add_list(subcommands)
    _add_search(subcommands)
    _add_delete(subcommands)
    _add_prune(subcommands)
    add_trace_serve(subcommands)
    add_trace_mcp(subcommands)
    add_replay(subcommands, add_recording)
    _add_import(subcommands)


def with_default_subcommand(words: list[str], trace: argparse.ArgumentParser) -> list[str]:
    """Return the command line with `show` inserted, if `trace` is followed by a file or an option of `show`."""
    if words[:1] != ["trace"] or len(words) == 1:
        return words
    if words[1] in ("-h", "--help", *(name for action in trace._actions for name in action.choices or ())):
        return words
    return ["trace", "show", *words[1:]]


def _add_show(subcommands: Commands) -> None:
    show = subcommands.add_parser(
        "show",
        help="show the messages of a recording",
        description="Show the messages of a recording: who received each, the request that a response answers and how "
        "long that took, what does not match the schema of the protocol, and which fields it does not know. With "
        "`--conversation` show what the messages say instead. With `--check` the exit code is 1 if a message does not "
        "match the schema.",
        epilog="examples: duologue trace run.acp --conversation; duologue trace run.acp --method 'session/*' --full",
    )
    show.set_defaults(function="trace.show:show")
    add_recording(show)
    show.add_argument(
        "--conversation",
        action="store_true",
        help="show prompts, texts, tool calls and permissions instead of messages",
    )
    show.add_argument("--stats", action="store_true", help="print figures instead of messages")
    show.add_argument("--check", action="store_true", help="only messages that do not match the schema")
    show.add_argument("--full", action="store_true", help="show messages and texts whole")
    show.add_argument("--follow", action="store_true", help="wait for more, until Ctrl-C")
    show.add_argument("--json", action="store_true", help="print one JSON object per line")
    group = show.add_argument_group("only messages")
    add_repeatable(group, "--method", "NAME", "of this method, or of its answers; `session/*` is a pattern")
    add_repeatable(group, "--session", "ID", "of this session; the beginning of its id is enough")
    group.add_argument("--to", choices=("agent", "client"), help="to this side")
    group.add_argument("--kind", action="append", default=[], choices=KINDS, help="of this kind (may be given again)")
    group.add_argument("--text", metavar="TEXT", help="that contain this text, in any case")
    add_seconds(group, "--since", "from this second of the recording on")
    add_seconds(group, "--until", "up to this second of the recording")


def _add_list(subcommands: Commands) -> None:
    listed = subcommands.add_parser(
        "list",
        help="list the recordings in the user's data directory",
        description="List the recordings that `--record` without a FILE and `tap` without `-o` have made, newest "
        "first.",
    )
    listed.set_defaults(function="trace.catalog:list_recordings")
    _add_common(listed)


def _add_search(subcommands: Commands) -> None:
    search = subcommands.add_parser(
        "search",
        help="find text in the recordings of the user's data directory",
        description="Print each line of a prompt or message, and each title of a tool call, that contains the text, in "
        "upper or lower case. The exit code is 1 if there is none. `duologue trace show FILE --text TEXT` finds "
        "messages of one recording by any text in them.",
    )
    search.set_defaults(function="trace.catalog:search")
    search.add_argument("text", metavar="TEXT", help="the text")
    _add_common(search)


def _add_delete(subcommands: Commands) -> None:
    delete = subcommands.add_parser(
        "delete",
        help="delete recordings",
        description="Delete recordings without asking, and print the path of each. Other files are not deleted.",
    )
    delete.set_defaults(function="trace.catalog:delete")
    add_recording(delete, nargs="+")


def _add_prune(subcommands: Commands) -> None:
    prune = subcommands.add_parser(
        "prune",
        help="delete old recordings of the user's data directory",
        description="Delete the recordings that were last written before so many days, without asking.",
        epilog="example: duologue trace prune --older-than 30 --dry-run",
    )
    prune.set_defaults(function="trace.catalog:prune")
    prune.add_argument("--older-than", type=days, metavar="DAYS", required=True, help="age of what is deleted")
    prune.add_argument("--dry-run", action="store_true", help="only list what would be deleted")
    _add_common(prune)


def _add_import(subcommands: Commands) -> None:
    imported = subcommands.add_parser(
        "import",
        help="make a recording of another program's log",
        description="Make a recording of a log of Zed, acpx, acp-devtools, the Rust conductor or the official Python "
        "SDK, without secrets, and print its path. Lines that cannot be read are left out and reported; the exit code "
        "is 1 then.",
        epilog="example: duologue trace import zed.json -o run.acp",
    )
    imported.set_defaults(function="trace.importer:import_recording")
    imported.add_argument("log", metavar="FILE", help="the log")
    imported.add_argument(
        "-o", "--output", metavar="FILE", help="the recording (default: a new one in the user's data directory)"
    )
    imported.add_argument("--from", dest="format", choices=LOG_FORMATS, help="the format (default: recognized)")
    add_repeatable(imported, "--redact", "REGEX", "remove matches of this regular expression, too")


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--this-directory", action="store_true", help="only recordings of sessions in this directory")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
