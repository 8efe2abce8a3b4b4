"""Find the lines of a conversation that contain a text, in bounded memory: chunks of a message are joined first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.conversation.content import text_of
from duologue.conversation.updates import MessageChunk, MessageUpdate, ToolCallUpdate, Update
from duologue.errors import InvalidParams
from duologue.protocol.observation import ObservedMessage, observe
from duologue.recording.format import Entry

MAX_LINE = 64 * 1024
"""Characters of a line that are joined; a longer one is searched in parts."""
MAX_SESSIONS = 256
"""Sessions whose last line may be open at the same time."""


class FoundLine(NamedTuple):
    """A line that contains the text.

    Attributes:
        t: Seconds from the start of the recording to the end of the line.
        session_id: Session of the message.
        line: The line.
    """

    t: float
    session_id: str
    line: str


class _Opened(Struct, rename="camel"):
    protocol_version: int | None = None


class _Message(Struct):
    method: str = ""
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Message).decode
_decode_opened = msgspec.json.Decoder(_Opened).decode


def find_lines(entries: Iterable[Entry], text: str) -> Iterator[FoundLine]:
    """Yield the lines of prompts and messages, and the titles of tool calls, that contain the text in any case."""
    wanted, lines = text.casefold(), _Lines()
    for entry in entries:
        if isinstance(entry.frame, Raw):
            yield from (each for each in lines.add(entry.t, entry.frame) if wanted in each.line.casefold())
    yield from (each for each in lines.end() if wanted in each.line.casefold())


class _Lines:
    """Collects the lines of a conversation."""

    def __init__(self) -> None:
        self._version = 1
        self._open: dict[str, tuple[float, str, str]] = {}
        """Time, role and text of the last line of each session."""
        self._prompted: set[str] = set()
        """Sessions with a prompt, which an agent may repeat as a message of the user."""

    def add(self, t: float, frame: Raw) -> Iterator[FoundLine]:
        """Yield the lines that a message ends."""
        try:
            message = _decode(frame)
            if isinstance(message.result, Raw):
                self._version = _decode_opened(message.result).protocol_version or self._version
            if not message.method or not isinstance(message.params, Raw):
                return
            observed = observe(self._version, message.method, message.params)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidParams):
            return  # recordings have every frame, valid or not
        if observed is not None:
            for role, text in self._texts(observed):
                yield from self._join(t, observed.session_id, role, text)

    def _texts(self, observed: ObservedMessage) -> Iterator[tuple[str, str]]:
        for blocks in filter(None, (observed.prompt, observed.steering)):
            self._prompted.add(observed.session_id)
            yield "prompt", text_of(tuple(blocks)) + "\n"
        for update in observed.updates:
            role, text = _text(update)
            if text and not (role == "user" and observed.session_id in self._prompted):
                yield role, text

    def _join(self, t: float, session_id: str, role: str, text: str) -> Iterator[FoundLine]:
        began, last, rest = self._open.pop(session_id, (t, role, ""))
        if last != role:
            yield FoundLine(began, session_id, rest)
            rest = ""
        *lines, rest = (rest + text).split("\n")
        yield from (FoundLine(t, session_id, line) for line in lines)
        if len(rest) > MAX_LINE:
            yield FoundLine(t, session_id, rest)
            rest = ""
        if len(self._open) == MAX_SESSIONS:
            yield from self.end()
        self._open[session_id] = (t, role, rest)

    def end(self) -> Iterator[FoundLine]:
        """Yield the lines that are open."""
        yield from (FoundLine(t, session_id, rest) for session_id, (t, _, rest) in self._open.items() if rest)
        self._open.clear()


def _text(update: Update) -> tuple[str, str]:
    """Return the role and the text of an update; of a tool call its title."""
    if isinstance(update, MessageChunk):
        return f"{update.role} {update.message_id}" if update.role != "user" else "user", text_of((update.content,))
    if isinstance(update, MessageUpdate):
        return update.role, text_of(tuple(update.content or ()))
    if isinstance(update, ToolCallUpdate):
        return "tool", f"{update.title}\n" if isinstance(update.title, str) else ""
    return "", ""
