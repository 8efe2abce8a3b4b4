"""`duologue trace list`, `search`, `delete` and `prune`: the recordings in the user's data directory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from duologue.cli.console.read_progress import ReadProgress
from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.cli.recordings import KnownRecording, known_recordings
from duologue.recording.reader import RecordingReader
from duologue.sanitize import escape_line
from duologue.trace.text_search import find_lines

FORMAT = 1
"""Version of the lines of `--json`."""


def list_recordings(arguments: argparse.Namespace) -> int:
    """Print the recordings, newest first."""
    known = known_recordings(_directory(arguments))
    _print(known, as_json=arguments.json)
    if not known and not arguments.json:
        sys.stderr.write("no recordings; `duologue tap` and `--record` make them\n")
    return ExitCode.OK


def search(arguments: argparse.Namespace) -> int:
    """Print every line of every recording that contains the text; return 1 if there is none."""
    out = safe(sys.stdout, is_exact=arguments.json)
    has_hit = False
    for known in known_recordings(_directory(arguments)):
        try:
            with RecordingReader(known.path) as reader:
                progress = ReadProgress(reader)
                for found in find_lines(progress, arguments.text):
                    has_hit = True
                    progress.clear()
                    if arguments.json:
                        out.write_json({"format": FORMAT, "recording": str(known.path), **found._asdict()})
                    else:
                        out.write(f"{escape_line(known.path.name)}: {escape_line(found.line.strip(), 500)}\n")
        except (OSError, ValueError) as error:
            sys.stderr.write(f"duologue: skipped {escape_line(str(error), 500)}\n")
    return ExitCode.OK if has_hit else ExitCode.AGENT_ERROR


def delete(arguments: argparse.Namespace) -> int:
    """Delete recordings, and print the path of each that is gone."""
    for path in map(Path, arguments.file):
        try:
            with RecordingReader(path):
                pass  # nothing but recordings is deleted
        except (OSError, ValueError) as error:
            raise UsageError(str(error)) from None
    return _delete(map(Path, arguments.file))


def prune(arguments: argparse.Namespace) -> int:
    """Delete the recordings of the data directory that were last written before so many days."""
    oldest = datetime.now(UTC) - timedelta(days=arguments.older_than)
    old = [known for known in known_recordings(_directory(arguments)) if known.updated_at < oldest]
    if arguments.dry_run:
        _print(old, as_json=arguments.json)
        return ExitCode.OK
    return _delete(known.path for known in old)


def _directory(arguments: argparse.Namespace) -> Path | None:
    return Path.cwd() if arguments.this_directory else None


def _print(recordings: Iterable[KnownRecording], *, as_json: bool) -> None:
    out = safe(sys.stdout, is_exact=as_json)
    for path, updated_at, size, digest in recordings:
        if as_json:
            out.write_json({
                "format": FORMAT, "recording": str(path), "updated_at": updated_at.isoformat(timespec="seconds"),
                "bytes": size, "agent": digest.agent, "started": digest.started, "cwd": digest.cwd,
                "title": digest.title,
            })  # fmt: skip
        else:
            about = (f"{size / 1000:>9,.0f} kB", digest.cwd, digest.title)
            parts = [path.name, f"{updated_at.astimezone():%Y-%m-%d %H:%M}", *filter(None, about)]
            out.write("  ".join(map(escape_line, parts)) + "\n")


def _delete(paths: Iterable[Path]) -> ExitCode:
    code = ExitCode.OK
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            code = ExitCode.AGENT_ERROR
            sys.stderr.write(f"duologue: cannot delete {path}: {error.strerror}\n")
        else:
            safe(sys.stdout).write(f"{path}\n")
    return code
