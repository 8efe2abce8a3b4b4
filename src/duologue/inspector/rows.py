"""Rows of the inspector page: what its lists show of a frame without the frame itself, each text within a bound."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from duologue.sanitize import replace_lone_surrogates
from duologue.trace.frame_filter import text_of
from duologue.trace.frames import FrameKind, Problem, TracedFrame
from duologue.trace.unknown_fields import unknown_fields

NAME_CHARS = 200
"""Characters of a method, an id or a session; longer ones are cut."""
PREVIEW_CHARS = 160
MAX_PROBLEMS = 20
"""Problems and unknown fields of one frame that are shown."""
PROBLEM_CHARS = 400


class FrameRow(Struct, array_like=True, frozen=True):
    """One frame as the lists show it. The order of the members is that of `web/src/rows.ts`."""

    number: int
    t: float
    dir: str
    kind: FrameKind
    method: str
    update: str
    id: int | str | None
    session: str
    size: int
    latency: float | None
    answers: int | None
    preview: str
    problems: Sequence[tuple[str, str, bool]]
    unknown: Sequence[str]


class _Content(Struct):
    text: str = ""


class _Shown(Struct, rename="camel"):
    """The members that say in words what a message is about."""

    text: str = ""
    title: str = ""
    status: str = ""
    message: str = ""
    path: str = ""
    command: str = ""
    cwd: str = ""
    stop_reason: str = ""
    current_mode_id: str = ""


class _Update(_Shown):
    content: Raw = Raw(b"")


class _Part(_Shown):
    update: Raw = Raw(b"")
    prompt: Raw = Raw(b"")
    tool_call: Raw = Raw(b"")


class _Body(Struct):
    params: Raw = Raw(b"")
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_part = msgspec.json.Decoder(_Part).decode
_decode_update = msgspec.json.Decoder(_Update).decode
_decode_content = msgspec.json.Decoder(_Content).decode
_decode_blocks = msgspec.json.Decoder(list[_Content]).decode


def row_of(frame: TracedFrame) -> FrameRow:
    """Return the row of a frame."""
    return FrameRow(
        frame.number,
        frame.t,
        frame.dir,
        frame.kind,
        _cut(frame.method),
        _cut(frame.update),
        _cut(frame.id) if isinstance(frame.id, str) else _safe_integer(frame.id),
        _cut(frame.session),
        frame.size,
        frame.latency,
        frame.answers,
        _cut(preview_of(frame), PREVIEW_CHARS),
        tuple(_problem(each) for each in frame.problems[:MAX_PROBLEMS]),
        [_cut(path) for path in unknown_fields(frame)[:MAX_PROBLEMS]],
    )


def preview_of(frame: TracedFrame) -> str:
    """Return what a frame is about in a few words: a text, a title, a path; otherwise the beginning of its JSON."""
    entry = frame.entry
    if frame.kind == "gap":
        return f"{entry.gap:,} frames are missing here"
    if frame.kind == "exit":
        return f"the agent ended with exit code {entry.exit_code}"
    if not isinstance(entry.frame, Raw) or frame.kind == "invalid":
        return text_of(frame)[: PREVIEW_CHARS + 1]
    try:
        body = _decode_body(entry.frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return text_of(frame)[: PREVIEW_CHARS + 1]
    part = bytes(body.params or body.result or body.error)
    return _words(part) or part[: 4 * PREVIEW_CHARS].decode("utf-8", "replace")


def _words(part: bytes) -> str:
    try:
        found = _decode_part(part)
        if found.update:
            update = _decode_update(found.update)
            return _content_text(update.content) or _joined(update)
        if found.prompt:
            return " ".join(each.text for each in _decode_blocks(found.prompt) if each.text)
        return _joined(_decode_update(found.tool_call) if found.tool_call else found)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def _content_text(content: Raw) -> str:
    try:
        return _decode_content(content).text
    except msgspec.MsgspecError:
        return ""


def _joined(shown: _Shown) -> str:
    texts = (getattr(shown, name) for name in _Shown.__struct_fields__)
    return " · ".join(text for text in texts if text)


def _cut(text: str, limit: int = NAME_CHARS) -> str:
    return replace_lone_surrogates(text if len(text) <= limit else f"{text[:limit]}…")


def _safe_integer(number: int | None) -> int | str | None:
    """Return a number that a browser reads exactly; a larger one as text."""
    return number if number is None or abs(number) < 1 << 53 else str(number)


def _problem(problem: Problem) -> tuple[str, str, bool]:
    return _cut(problem.path), _cut(problem.message, PROBLEM_CHARS), problem.is_tolerated
