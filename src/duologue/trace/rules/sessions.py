"""Rules about stored sessions: lists, deletion, and what is replayed."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from duologue.schema.lenient_errors import is_array, is_object
from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import objects, text
from duologue.trace.remembered import Remembered
from duologue.trace.rules.base import ProtocolRule, Violation
from duologue.trace.wire_state import WireState

_HISTORY = frozenset(
    {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update",
     "user_message", "agent_message", "agent_thought"}
)  # fmt: skip
"""Updates that a replay consists of."""
_FROM_USER = ("user_message_chunk", "user_message")


class Lists(ProtocolRule):
    """Lists have the sessions that were asked for."""

    numbers = (66, 67, 68)
    methods = frozenset({"session/list"})

    def __init__(self) -> None:
        super().__init__()
        self._cursors: Remembered[str, int] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report made-up cursors, sessions of other directories, and lists that are none."""
        if frame.kind == "request" and (cursor := text(wire.body, "cursor")):
            self.observe("client", 68)
            is_known = cursor in self._cursors or self._cursors.is_partial or wire.is_partial
            if not is_known and not frame.entry.redacted:
                yield Violation(68, f"the cursor {cursor[:200]!r} was never sent", (frame.number,), "$.params.cursor")
        request = wire.request_of(frame)
        if frame.kind != "response" or request is None:
            return
        if cursor := text(wire.body, "nextCursor"):
            self._cursors[cursor] = frame.number
        if not (found := wire.body.get("sessions")):
            self.observe("agent", 66)
            if not is_array(found):
                yield Violation(
                    66, "a list without `sessions: []`", (frame.number, request.number), "$.result.sessions"
                )
        if directory := text(request.params, "cwd").rstrip("/"):
            self.observe("agent", 67)
            for index, session in objects(wire.body, "sessions"):
                if (cwd := text(session, "cwd").rstrip("/")) != directory and not frame.entry.redacted:
                    message = f"a session of {cwd[:200]!r} in the list of {directory[:200]!r}"
                    path = f"$.result.sessions[{index}].cwd"
                    yield Violation(67, message, (frame.number, request.number), path)


class Deletions(ProtocolRule):
    """Deleted sessions are gone, and may be deleted again."""

    numbers = (72, 73)
    methods = frozenset({"session/list", "session/delete", "session/load", "session/new", "session/resume"})

    def __init__(self) -> None:
        super().__init__()
        self._deleted: Remembered[str, int] = Remembered()

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report a deleted session in a list, and an error for a second deletion."""
        request = wire.request_of(frame)
        if frame.kind not in ("response", "error") or request is None:
            return
        if frame.method == "session/delete":
            first = self._deleted.get(request.session)
            if first is not None and request.number > first:
                self.observe("agent", 72)
                if frame.kind == "error":
                    message = f"session {request.session!r} was deleted before, and this is an error"
                    yield Violation(72, message, (frame.number, first), "$.error")
            if frame.kind == "response" and first is None:
                self._deleted[request.session] = frame.number
        elif frame.method == "session/list" and self._deleted and frame.kind == "response":
            self.observe("agent", 73)
            for index, session in objects(wire.body, "sessions"):
                first = self._deleted.get(text(session, "sessionId"))
                if first is not None and request.number > first:
                    message, path = "a session that was deleted", f"$.result.sessions[{index}].sessionId"
                    yield Violation(73, message, (frame.number, first), path)
        elif frame.kind == "response":
            self._deleted.pop(text(wire.body, "sessionId") or request.session, None)


class _Loading(Struct):
    number: int
    method: str
    wants_replay: bool
    has_state: bool = False
    is_running: bool = False
    is_reported: bool = False


class Replays(ProtocolRule):
    """The history of a session is replayed while it is loaded, and only then."""

    numbers = (56, 57, 60, 126, 145, 146)

    def __init__(self) -> None:
        super().__init__()
        self._loading: Remembered[str, _Loading] = Remembered()
        self._loaded: Remembered[str, int] = Remembered()
        """Sessions without a prompt since they were loaded, and the number of the response."""

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report replays that come too late, for another session, or without being asked for."""
        if frame.kind == "notification" and frame.update:
            yield from self._update(frame, wire)
        elif frame.kind == "request" and frame.method in ("session/load", "session/resume"):
            wants = frame.method == "session/load" or is_object(wire.body.get("replayFrom"))
            is_running = frame.session in wire.prompts
            self._loading[frame.session] = _Loading(frame.number, frame.method, wants, is_running=is_running)
            self._loaded.pop(frame.session, None)
        elif frame.kind == "request" and frame.method == "session/prompt":
            self._loaded.pop(frame.session, None)
        elif frame.kind in ("response", "error") and frame.method in ("session/load", "session/resume"):
            loading = self._loading.pop(frame.session, None)
            if loading is not None and frame.kind == "response":
                yield from self._response(frame, loading)
        elif frame.kind == "gap":
            self._loading.clear()

    def _response(self, frame: TracedFrame, loading: _Loading) -> Iterator[Violation]:
        if loading.method == "session/load":
            self._loaded[frame.session] = frame.number
            self.observe("agent", 56, 126)
        elif frame.version == 1:
            self.observe("agent", 60)
        else:
            self.observe("agent", 145, *(() if loading.wants_replay else (146,)))
            if not loading.has_state:
                message = "session/resume is answered before a `state_update`"
                yield Violation(145, message, (frame.number, loading.number), "$.result")

    def _update(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        if (loading := self._loading.get(frame.session)) is not None:
            yield from self._during(frame, wire, loading)
            return
        is_strange = frame.session not in wire.sessions and frame.session not in wire.closed
        if is_strange and len(self._loading) == 1 and not wire.is_opening and not wire.is_partial:
            ((session, loading),) = self._loading.items()
            if loading.method == "session/load" and not loading.is_reported:
                loading.is_reported = True
                message = f"{frame.update} for session {frame.session!r} while {session!r} is loaded"
                yield Violation(57, message, (frame.number, loading.number), "$.params.sessionId")
        loaded = self._loaded.get(frame.session)
        if loaded is not None and frame.update in _FROM_USER:
            del self._loaded[frame.session]
            message = "a message of the past after the response to session/load"
            yield Violation(56, message, (frame.number, loaded), "$.params.update")

    def _during(self, frame: TracedFrame, wire: WireState, loading: _Loading) -> Iterator[Violation]:
        """Report what must not be sent while a session is loaded."""
        if loading.method == "session/load":
            self.observe("agent", 57)
            if frame.update == "notice":
                message = "a notice during the replay"
                yield Violation(126, message, (frame.number, loading.number), "$.params.update.sessionUpdate")
        if frame.update == "state_update":
            loading.has_state = True
            loading.is_running = loading.is_running or text(wire.update, "state") != "idle"
        if not loading.wants_replay and frame.update in _HISTORY and not loading.is_running and not loading.is_reported:
            loading.is_reported = True
            message = f"{frame.update} before the response to session/resume, which asks for no replay"
            rule = 60 if frame.version == 1 else 146
            yield Violation(rule, message, (frame.number, loading.number), "$.params.update.sessionUpdate")


RULES: tuple[type[ProtocolRule], ...] = (Lists, Deletions, Replays)
