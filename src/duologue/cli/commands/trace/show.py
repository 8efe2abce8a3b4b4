"""`duologue trace show`: read a recording frame by frame."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw

from duologue.cli.console.conversation_view import ConversationView
from duologue.cli.console.read_progress import ReadProgress
from duologue.cli.console.safe_output import SafeOutput, Style, columns_of, first_columns, safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.recording.format import FrameDirection
from duologue.recording.reader import RecordingReader
from duologue.sanitize import escape_line
from duologue.trace.conversation import ConversationReader
from duologue.trace.frame_filter import FrameFilter, text_of
from duologue.trace.frames import TracedFrame, Tracer
from duologue.trace.item_queue import ConversationItem
from duologue.trace.statistics import Statistics, StatisticsCounter
from duologue.trace.unknown_fields import unknown_fields

DIRECTIONS: dict[str | None, FrameDirection | None] = {None: None, "agent": "to_agent", "client": "to_client"}
ARROWS = {"to_agent": "-->", "to_client": "<--", "": "   "}
INDENT = " " * 11
STYLES = {"error": Style.RED, "invalid": Style.RED, "stderr": Style.YELLOW, "gap": Style.YELLOW}
CONTENT_COLUMNS = 100
"""Columns of a frame's content that are shown off a terminal without `--full`."""
FOLLOW_SECONDS = 0.2
"""Pause before a growing file is read again."""
FORMAT = 1
"""Version of the lines of `--json`."""


def show(arguments: argparse.Namespace) -> int:
    """Show the frames or the conversation of a recording; return 1 if `--check` finds a problem."""
    selection = FrameFilter(
        methods=arguments.method,
        sessions=arguments.session,
        direction=DIRECTIONS[arguments.to],
        kinds=arguments.kind,
        text=arguments.text or "",
        since=arguments.since or 0.0,
        until=arguments.until,
        only_problems=arguments.check,
    )
    try:
        with RecordingReader(Path(arguments.file)) as reader:
            if arguments.conversation:
                return _show_conversation(arguments, reader)
            return _show(arguments, reader, selection)
    except (FileNotFoundError, IsADirectoryError, PermissionError, ValueError) as error:
        raise UsageError(str(error)) from None
    except KeyboardInterrupt:
        if not arguments.follow:
            raise
        return ExitCode.OK


def _show(arguments: argparse.Namespace, reader: RecordingReader, selection: FrameFilter) -> int:
    tracer, counter, has_problem = Tracer(), StatisticsCounter(), False
    out, progress = safe(sys.stdout, is_exact=arguments.json), ReadProgress(reader)
    columns = _columns(out, arguments.full)
    for frame in _frames(tracer, reader, progress, arguments.follow):
        if not selection.matches(frame):
            continue
        has_problem = has_problem or any(not problem.is_tolerated for problem in frame.problems)
        counter.add(frame)
        if arguments.stats:
            continue
        progress.clear()
        if arguments.json:
            out.write_json(_as_json(frame))
        else:
            _write_frame(out, frame, columns)
    _report_damage(reader)
    if arguments.stats:
        statistics = counter.result(tracer.open_requests)
        if arguments.json:
            out.write_json({"format": FORMAT, **msgspec.to_builtins(statistics)})
        else:
            out.write(_table(statistics))
    return ExitCode.AGENT_ERROR if arguments.check and (has_problem or reader.damaged) else ExitCode.OK


def _show_conversation(arguments: argparse.Namespace, reader: RecordingReader) -> int:
    for name in ("method", "to", "kind", "check", "stats"):
        if getattr(arguments, name):
            raise UsageError(f"--{name} selects messages; leave out --conversation, or --{name}")
    out = safe(sys.stdout, is_exact=arguments.json)
    view = ConversationView(out, is_full=arguments.full)
    text = (arguments.text or "").casefold()
    progress = ReadProgress(reader)
    for item in _items(reader, progress, arguments.follow):
        if (
            (arguments.session and not item.session.startswith(tuple(arguments.session)))
            or not (arguments.since or 0.0) <= item.t <= (item.t if arguments.until is None else arguments.until)
            or (text and text not in f"{item.title}\n{item.text}".casefold())
        ):
            continue
        progress.clear()
        if arguments.json:
            out.write_json({"format": FORMAT, **msgspec.to_builtins(item)})
        else:
            view.show(item)
    _report_damage(reader)
    return ExitCode.OK


def _items(reader: RecordingReader, progress: ReadProgress, follows: bool) -> Iterator[ConversationItem]:
    tracer, conversation = Tracer(), ConversationReader()
    yield from conversation.read(tracer.trace(progress))
    yield from conversation.rest()
    while follows:
        sys.stdout.flush()
        time.sleep(FOLLOW_SECONDS)
        yield from conversation.read(tracer.trace(reader))
        yield from conversation.rest()


def _report_damage(reader: RecordingReader) -> None:
    if reader.damaged:
        sys.stderr.write(f"duologue: {reader.damaged:,} lines of {reader.path} are damaged and were left out\n")


def _frames(tracer: Tracer, reader: RecordingReader, progress: ReadProgress, follows: bool) -> Iterator[TracedFrame]:
    yield from tracer.trace(progress)
    while follows:
        sys.stdout.flush()
        time.sleep(FOLLOW_SECONDS)
        yield from tracer.trace(reader)


def _write_frame(out: SafeOutput, frame: TracedFrame, columns: int | None) -> None:
    """Write a frame: a line that says what it is, its content within so many columns, and what is wrong with it."""
    name = frame.method or ("?" if frame.kind in ("response", "error") else "")
    id_ = "" if frame.id is None else f"#{frame.id}"
    latency = "" if frame.latency is None else f"  {frame.latency * 1000:,.1f} ms"
    size = f"  {frame.size:,} B" if frame.size else ""
    title = escape_line(" ".join(filter(None, [name, frame.update, id_])))
    out.write(f"{frame.t:>10.3f} ", Style.DIM)
    out.write(f"{ARROWS[frame.dir]} {frame.kind:<12} {title}", STYLES.get(frame.kind, Style.PLAIN))
    out.write(f"{latency}{size}\n", Style.DIM)
    content = escape_line(_content(frame), columns)
    shown = content if columns is None or len(content) <= columns else first_columns(content, columns - 1) + "…"
    out.write(f"{INDENT}{shown}\n")
    for each in frame.problems:
        found, style = ("tolerated", Style.YELLOW) if each.is_tolerated else ("problem", Style.RED)
        out.write(f"{INDENT}{found} at {escape_line(each.path)}: {escape_line(each.message)}\n", style)
    for path in unknown_fields(frame):
        out.write(f"{INDENT}unknown field at {escape_line(path)}\n", Style.YELLOW)


def _columns(out: SafeOutput, is_full: bool) -> int | None:
    """Return the columns of a frame's content; None for all of it."""
    if is_full:
        return None
    return max(20, columns_of(out) - len(INDENT) - 1) if out.isatty() else CONTENT_COLUMNS


def _content(frame: TracedFrame) -> str:
    """Return the part of a frame that its first line does not say: params, result or error of a message."""
    if frame.kind == "gap":
        return f"{frame.entry.gap:,} frames are missing here"
    if frame.kind == "exit":
        return f"the agent ended with exit code {frame.entry.exit_code}"
    if not isinstance(frame.entry.frame, Raw) or frame.kind == "invalid":
        return text_of(frame)
    members = msgspec.json.decode(frame.entry.frame, type=dict[str, Raw])
    part = next((members[name] for name in ("params", "result", "error") if name in members), Raw(b"{}"))
    return bytes(part).decode("utf-8", "replace")


def _as_json(frame: TracedFrame) -> dict[str, object]:
    entry = frame.entry
    line: dict[str, object] = {"format": FORMAT, "number": frame.number, "t": frame.t, "kind": frame.kind}
    named = {"dir": frame.dir, "method": frame.method, "update": frame.update, "id": frame.id, "session": frame.session}
    line |= {name: value for name, value in named.items() if value not in ("", None)}
    line |= {"size": frame.size} if frame.size else {}
    line |= {} if frame.latency is None else {"latency": frame.latency}
    line |= {"problems": msgspec.to_builtins(frame.problems)} if frame.problems else {}
    line |= {"unknown": unknown} if (unknown := unknown_fields(frame)) else {}
    content = {"text": entry.text, "stderr": entry.stderr, "exit_code": entry.exit_code, "gap": entry.gap or None}
    line |= {name: value for name, value in content.items() if value is not None}
    return line | ({"frame": msgspec.json.decode(entry.frame)} if isinstance(entry.frame, Raw) else {})


def _table(statistics: Statistics) -> str:
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in statistics.frames.items()) or "none"
    first = "no update" if statistics.first_update is None else f"{statistics.first_update:,.3f} s"
    rows = [
        ("time", f"{statistics.seconds:,.3f} s"),
        ("frames", kinds),
        ("size", f"{statistics.bytes / 1000:,.1f} kB"),
        ("problems", f"{statistics.problems:,} frames do not match the schema, {statistics.missing:,} are missing"),
        ("unanswered", f"{statistics.unanswered:,} requests"),
        ("first update", f"{first} after the first prompt"),
        ("updates", f"at most {statistics.updates_per_second:,} in a second"),
        ("permission", f"{statistics.permission_wait:,.3f} s waited for answers"),
        ("silence", f"at most {statistics.longest_silence:,.3f} s during a prompt"),
    ]
    lines = [f"{name:<13}{value}\n" for name, value in rows]
    if statistics.methods:
        lines.append(f"\n{'method':<32}{'count':>7}{'errors':>8}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}\n")
    for each in statistics.methods:
        times = "".join(f"{value * 1000:>10,.1f}" for value in (each.p50, each.p99, each.longest))
        lines.append(f"{escape_line(each.method):<32}{each.count:>7,}{each.errors:>8,}{times}\n")
    return "".join(lines)
