"""Compare transcripts with files that were written before."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from duologue.testing.transcript_lines import HasFrames, HasTranscript, transcript_text

VERSION = 1
"""Version of the file format; the first line of a file has it."""
HEAD = "# duologue transcript "
MOST_BYTES = 16 * 1024 * 1024


class SnapshotMismatch(AssertionError):
    """A transcript differs from its snapshot; the message has the differences and the whole transcript."""


def assert_transcript(
    source: HasTranscript | HasFrames, path: str | Path, *, update: bool = False, cwd: str | Path | None = None
) -> None:
    """Fail if a transcript is not the one in a file; ids, times and the working directory do not count.

    Args:
        source: A session of a client, or the result of `drive`.
        path: The file, such as `greeting.snap`.
        update: Write the file instead. The fixture `acp_snapshot` does so with `--acp-update-snapshots`.
        cwd: The working directory. Default: that of the session.

    Raises:
        SnapshotMismatch: The transcript differs, or there is no such file; an `AssertionError`.
        ValueError: The file is not a snapshot, or was written by a newer duologue.
    """
    path, text = Path(path), transcript_text(source, cwd=cwd) + "\n"
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{HEAD}{VERSION}\n{text}", "utf-8")
        return
    if not path.is_file():
        raise SnapshotMismatch(
            f"there is no snapshot {path}; write it with --acp-update-snapshots. Transcript:\n{text}"
        )
    expected = _read(path)
    if expected != text:
        raise SnapshotMismatch(_report(path, expected, text))


def _read(path: Path) -> str:
    """Return the transcript in a file.

    Raises:
        ValueError: It is not a snapshot, or a newer one.
    """
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES >> 20} MiB and no snapshot")
    head, _, text = path.read_text("utf-8").partition("\n")
    found = re.fullmatch(re.escape(HEAD) + r"(\d{1,9})", head)
    if found is None:
        raise ValueError(f"{path} is not a snapshot: its first line is not `{HEAD}{VERSION}`")
    if int(found[1]) > VERSION:
        raise ValueError(
            f"{path} has version {found[1]} of the format, and this duologue reads up to {VERSION}; "
            "install a newer duologue, or write the file again with --acp-update-snapshots"
        )
    return text


def _report(path: Path, expected: str, text: str) -> str:
    differences = difflib.unified_diff(
        expected.splitlines(), text.splitlines(), str(path), "this run", lineterm="", n=3
    )
    return "\n".join(
        [
            f"the transcript differs from {path}; if it is right, write it with --acp-update-snapshots:",
            *differences,
            "",
            "whole transcript:",
            text,
        ]
    )
