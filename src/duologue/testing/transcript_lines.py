"""Transcripts as text for people and snapshots: one line for each thing that happened, the same in every run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from duologue.conversation.items import Message, Plan, ToolCall
from duologue.conversation.transcript import Transcript
from duologue.sanitize import sanitize
from duologue.testing.message_log import LoggedFrame

_ID = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{16,}\b"
)
_PREFIXED_ID = re.compile(r"\b[a-z]{2,10}_(?=[0-9a-f]*[0-9])[0-9a-f]{16,}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_ID_MEMBERS = ("sessionId", "toolCallId", "terminalId", "messageId", "planId", "elicitationId", "requestId")


class HasTranscript(Protocol):
    """Something with a transcript, such as a session of a client."""

    @property
    def transcript(self) -> Transcript: ...


class HasFrames(Protocol):
    """Something with the messages of a connection, such as a `ClientRun`."""

    @property
    def frames(self) -> Sequence[LoggedFrame]: ...


def transcript_text(source: HasTranscript | HasFrames, *, cwd: str | Path | None = None) -> str:
    """Return a session, or the messages of a scripted client, as text.

    Ids, times, versions of programs and the working directory are replaced by `<id-1>`, `<time>`, `<version>` and
    `<cwd>`, so that the text is the same in every run.

    Args:
        source: A session of a client, or the result of `drive`.
        cwd: The working directory. Default: that of the session.
    """
    directory = cwd or getattr(source, "cwd", None) or getattr(source, "variables", {}).get("cwd")
    frames: Sequence[LoggedFrame] | None = getattr(source, "frames", None)
    if frames is not None:
        text = "\n".join(_frame_lines(frames))
    else:
        text = "\n".join(_transcript_lines(cast("HasTranscript", source).transcript))
    return _Normaliser(str(directory) if directory else "").normalise(sanitize(text))


def _transcript_lines(transcript: Transcript) -> Iterator[str]:
    if transcript.dropped:
        yield f"({transcript.dropped} older items were dropped)"
    for item in transcript.items:
        yield from _item_lines(item)
    for plan in transcript.plans.values():
        yield from _plan_lines(plan)


def _item_lines(item: Any) -> Iterator[str]:
    if isinstance(item, Message):
        kinds = [type(part).__name__ for part in item.content if not hasattr(part, "text")]
        yield from _block(f"{item.role}:", item.text + "".join(f" [{kind}]" for kind in kinds))
    elif isinstance(item, ToolCall):
        unsettled = ", unsettled" if item.is_unsettled else ""
        yield f"tool {item.kind} {item.title!r}: {item.status}{unsettled}"
        for location in item.locations:
            yield f"    at {location.path}" + (f":{location.line}" if location.line is not None else "")
        for change in item.changes:
            yield f"    changes {change.path}"
        if item.output:
            yield from _block("    output:", item.output)
    else:
        yield type(item).__name__.lower()


def _plan_lines(plan: Plan) -> Iterator[str]:
    yield "plan:"
    for entry in plan.entries:
        yield f"    [{entry.status}] {entry.content}"


def _block(head: str, text: str) -> Iterator[str]:
    """Yield a text after its head: in the same line, or, if it has several lines, indented below."""
    lines = text.split("\n")
    if len(lines) == 1:
        yield f"{head} {text}".rstrip()
    else:
        indent = " " * (len(head) - len(head.lstrip()) + 4)
        yield head
        yield from (f"{indent}{line}".rstrip() for line in lines)


def _frame_lines(frames: Iterable[LoggedFrame]) -> Iterator[str]:
    for each in frames:
        arrow = "->" if each.direction == "sent" else "<-"
        message = each.message
        if isinstance(message, dict):
            members = {name: value for name, value in cast("dict[str, Any]", message).items() if name != "jsonrpc"}
            yield f"{arrow} {msgspec.json.encode(members).decode()}"
        else:
            yield f"{arrow} {each.frame!r}"


class _Normaliser:
    """Replaces what differs from run to run."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd if len(cwd) > 1 else ""
        self._ids: dict[str, str] = {}

    def normalise(self, text: str) -> str:
        if self._cwd:
            text = text.replace(self._cwd, "<cwd>")
        members = "|".join(_ID_MEMBERS)
        text = re.sub(
            rf'("(?:{members})":")([^"]+)(")', lambda found: found[1] + self._number(found[2]) + found[3], text
        )
        for pattern in (_PREFIXED_ID, _ID):
            text = pattern.sub(lambda found: self._number(found[0]), text)
        text = re.sub(r'"version":"[^"]*"', '"version":"<version>"', text)
        return _TIME.sub("<time>", text)

    def _number(self, id_: str) -> str:
        if re.fullmatch(r"<id-\d+>", id_):
            return id_
        return self._ids.setdefault(id_, f"<id-{len(self._ids) + 1}>")
