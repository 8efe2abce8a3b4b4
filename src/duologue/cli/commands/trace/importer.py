"""`duologue trace import`: make a recording of another program's log."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.config.recordings import new_recording, user_redactor
from duologue.errors import StartError
from duologue.recording.format import VERSION, FrameDirection, Header, encode_line
from duologue.recording.frame_lines import FrameLines
from duologue.recording.recording_file import RecordingFile
from duologue.recording.redaction import Redactor
from duologue.sanitize import escape_line
from duologue.trace.importers.foreign_log import ForeignFrame, ForeignLog
from duologue.trace.importers.formats import FORMATS, format_of

BATCH = 1000
"""Lines that are written at once."""


def import_recording(arguments: argparse.Namespace) -> int:
    """Write a recording, without secrets, and print its path; return 1 if something had to be left out."""
    try:
        redactor = user_redactor(arguments.redact)
        with ForeignLog(arguments.log) as log:
            name = arguments.format or format_of(log)
            frames = FORMATS[name].read(log)
            first = next(frames, None)
            if first is None:
                raise ValueError("; ".join(log.problems) or f"there is no message in this log of {name}")
            path = _new_file(arguments.output)
            file = RecordingFile(path, _header(log, redactor))
            try:
                count = _write(file, [first], frames, redactor)
            finally:
                file.close()
    except StartError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{error.filename or arguments.log}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{arguments.log}: {escape_line(str(error), 1000)}") from None
    sys.stdout.write(f"{path}\n")
    return _report(arguments.log, log, count, file.lost)


def _new_file(output: str | None) -> Path:
    path = new_recording() if output is None else Path(output)
    if path.exists():
        raise UsageError(f"-o {output}: the file exists already")
    return path


def _header(log: ForeignLog, redactor: Redactor) -> bytes:
    started = datetime.fromtimestamp(log.started, UTC).isoformat(timespec="milliseconds") if log.started else ""
    return encode_line(Header("recording", VERSION, started, redactor.redact(log.agent))) + b"\n"


def _write(file: RecordingFile, first: list[ForeignFrame], rest: Iterator[ForeignFrame], redactor: Redactor) -> int:
    directions: tuple[FrameDirection, FrameDirection] = ("to_agent", "to_client")
    of_direction = {each: FrameLines(each, redactor) for each in directions}
    lines: list[bytes] = []
    count = 0
    for frames in (first, rest):
        for t, direction, data in frames:
            count += 1
            if direction:
                lines.append(of_direction[direction].line(t, data))
            else:
                text = redactor.redact(data.decode("utf-8", "replace"))
                lines.append(encode_line({"t": t, "stderr": text}) + b"\n")
            if len(lines) == BATCH:
                file.write(lines)
                lines = []
    file.write(lines)
    return count


def _report(name: str, log: ForeignLog, count: int, lost: int) -> ExitCode:
    for problem in log.problems:
        sys.stderr.write(f"duologue: {name}, {escape_line(problem, 500)}\n")
    left_out = log.left_out + lost
    sys.stderr.write(f"{count - lost:,} messages imported, {left_out:,} left out\n")
    return ExitCode.AGENT_ERROR if left_out else ExitCode.OK
