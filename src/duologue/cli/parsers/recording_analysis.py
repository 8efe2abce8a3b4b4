"""Define the subcommands of `trace` that check, compare and convert recordings, but not what they do."""

from __future__ import annotations

import argparse

from duologue.cli.options import add_repeatable
from duologue.cli.parsers.recording_argument import add_recording

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


EXPORT_FORMATS = ("markdown", "json", "mermaid", "html")


def add_analysis(subcommands: Commands) -> None:
    """Add `validate`, `redact`, `diff` and `export`."""
    _add_validate(subcommands)
    _add_redact(subcommands)
    _add_diff(subcommands)
    _add_export(subcommands)


def _add_validate(subcommands: Commands) -> None:
    validate = subcommands.add_parser(
        "validate",
        help="check recordings against the rules of the protocol",
        description="Check recordings against the rules of the protocol: messages match the schema, every request has "
        "one response, and messages come in the right order. The exit code is 1 if a MUST is violated.",
        epilog="examples: duologue trace validate run.acp; duologue trace validate --list-rules",
    )
    validate.set_defaults(function="trace.validate:validate_recordings")
    add_recording(validate, "files", nargs="*")
    add_repeatable(validate, "--rule", "NAME", "check only this rule")
    validate.add_argument("--list-rules", action="store_true", help="list the rules and end")
    validate.add_argument("--strict", action="store_true", help="the exit code is 1 if a SHOULD is violated, too")
    validate.add_argument("--full", action="store_true", help="print all findings, not the first 10 of each rule")
    validate.add_argument("--json", action="store_true", help="print one JSON object per line")


def _add_redact(subcommands: Commands) -> None:
    redact = subcommands.add_parser(
        "redact",
        help="write a recording again without its secrets",
        description="Write a recording again without its secrets: by the rules that hold while recording, the patterns "
        "of the configuration file, and your own. For recordings that were imported, or made before a secret was "
        "known. Only the owner of the new file may read it.",
        epilog="example: duologue trace redact run.acp -o shared.acp --pattern 'emp-[0-9]+'",
    )
    redact.set_defaults(function="trace.redact:redact")
    add_recording(redact)
    target = redact.add_mutually_exclusive_group(required=True)
    target.add_argument("-o", "--output", metavar="FILE", help="the new file; it must not exist")
    target.add_argument("--in-place", action="store_true", help="replace the recording itself")
    add_repeatable(redact, "--pattern", "REGEX", "remove matches of this regular expression, too")
    add_repeatable(redact, "--value-from-env", "NAME", "remove the value of this environment variable, too")
    redact.add_argument("--json", action="store_true", help="print the counts as a JSON object")


def _add_diff(subcommands: Commands) -> None:
    diff = subcommands.add_parser(
        "diff",
        help="compare two runs by meaning",
        description="Compare two recordings by meaning, not by time: ids, times and the directory of the session are "
        "numbered, and the chunks of a message are joined before. The exit code is 1 if the runs differ.",
        epilog="example: duologue trace diff before.acp after.acp --ignore '*.agentInfo.version'",
    )
    diff.set_defaults(function="trace.diff:diff")
    add_recording(diff, "first", metavar="A", help="the first recording")
    add_recording(diff, "second", metavar="B", help="the second recording")
    add_repeatable(diff, "--ignore", "PATH", "do not compare the value at this JSON path; `*` matches anything")
    diff.add_argument("--full", action="store_true", help="print whole values, and messages that are equal")
    diff.add_argument("--json", action="store_true", help="print one JSON object per line")


def _add_export(subcommands: Commands) -> None:
    export = subcommands.add_parser(
        "export",
        help="write a recording as a document, or as a page for a browser",
        description="Write the conversation of a recording as Markdown, as one JSON document, or as a sequence diagram "
        "of Mermaid; or the whole recording as one HTML file: the page of `trace serve`, which needs no server then. "
        "No HTML comes from the recording, and nothing is fetched, whatever is in it.",
        epilog="examples: duologue trace export run.acp -o run.md; duologue trace export --html run.acp -o run.html",
    )
    export.set_defaults(function="trace.export:export")
    add_recording(export)
    export.add_argument("--html", action="store_true", help="the same as --format html")
    export.add_argument(
        "--format", choices=EXPORT_FORMATS, help="format (default: by the ending of the file, or markdown)"
    )
    export.add_argument(
        "-o", "--output", metavar="FILE", help="the file to write, for its owner only (default: stdout)"
    )
