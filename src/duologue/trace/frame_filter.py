"""Select frames by method, session, receiver, kind, text and time."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec import Raw, Struct

from duologue.recording.format import Entry, FrameDirection
from duologue.trace.frames import FrameKind, TracedFrame


class FrameFilter(Struct, frozen=True, kw_only=True):
    """Selects frames by what they are; an empty criterion selects all.

    Attributes:
        methods: Names or patterns such as `session/*`; a response has the method of its request.
        sessions: Beginnings of session ids.
        direction: The receiver.
        kinds: Kinds.
        text: Text that occurs in the frame, in upper or lower case.
        since: First second of the recording.
        until: Last second of the recording.
        only_problems: Only frames that do not match the schema.
    """

    methods: Sequence[str] = ()
    sessions: Sequence[str] = ()
    direction: FrameDirection | None = None
    kinds: Sequence[FrameKind] = ()
    text: str = ""
    since: float = 0.0
    until: float | None = None
    only_problems: bool = False

    def matches(self, frame: TracedFrame) -> bool:
        """Return True if the frame is selected."""
        return (
            (not self.methods or any(fnmatchcase(frame.method, each) for each in self.methods))
            and (not self.sessions or (frame.session != "" and frame.session.startswith(tuple(self.sessions))))
            and (self.direction is None or frame.dir == self.direction)
            and (not self.kinds or frame.kind in self.kinds)
            and frame.t >= self.since
            and (self.until is None or frame.t <= self.until)
            and (not self.only_problems or bool(frame.problems))
            and (not self.text or self.text.casefold() in text_of(frame).casefold())
        )


def text_of(frame: TracedFrame) -> str:
    """Return the content of a frame as text: its JSON, or what was written instead."""
    return entry_text(frame.entry)


def entry_text(entry: Entry) -> str:
    """Return the content of an entry as text."""
    if isinstance(entry.frame, Raw):
        return bytes(entry.frame).decode("utf-8", "replace")
    return entry.text or entry.stderr or ""
