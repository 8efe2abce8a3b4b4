"""Play the client's side of a recording to an agent, and record what the agent does."""

from __future__ import annotations

import heapq
from typing import Any

import msgspec
from msgspec import Raw

from duologue.errors import MethodNotFound
from duologue.recording.format import Entry, FrameDirection
from duologue.trace.identity import IdTranslator
from duologue.trace.replay.agent_player import CANCEL, CANCEL_REQUEST, MAX_REPLIES, TIMEOUT_SECONDS
from duologue.trace.replay.answers import RecordedAnswers
from duologue.trace.replay.client_plan import EventCounter, PlannedCall, plan_of
from duologue.trace.replay.script import MAX_BYTES, PROMPT, ReplayScript, members, message_of

SETTLE_SECONDS = 5.0
"""Longer than in the recording, an update that preceded a message of the client may take."""
FRAME_BYTES = 500
"""Memory of a frame in addition to its text."""


class ClientDriver:
    """Sends an agent what the recorded client sent, each message after what preceded it in the recording.

    Args:
        script: The recording.
        speed: Factor of the recorded speed; None for as fast as possible.
        timeout: Seconds to wait for each response of the agent.
        cwd: Working directory in place of the recorded one; empty for the recorded one.

    Attributes:
        entries: All messages of this run, as entries of a recording.
        directories: Working directory in the recording, and that of this run; empty if they are the same.
        failure: Why it ended before the recording did; empty if it did not.
    """

    def __init__(
        self, script: ReplayScript, *, speed: float | None = None, timeout: float = TIMEOUT_SECONDS, cwd: str = ""
    ) -> None:
        self.entries: list[Entry] = []
        self.directories = "", ""
        self.failure = ""
        self.timeout = timeout
        self._speed = speed
        self._plan, self._order = plan_of(script)
        self._responses = {each.answers: each for each in script.frames if each.answers is not None}
        self._ids = IdTranslator()
        self._pair_cwd(script, cwd)
        self._answers = RecordedAnswers(script, self._ids)
        self._position = 0
        self._sent: dict[int, tuple[int, str, str]] = {}
        """Open requests: number of the recorded frame, method and session."""
        self._live_ids: dict[int | str | None, int] = {}
        self._last_id = 0
        self._responded: set[int] = set()
        self._in_order = 0
        """How many of the recorded responses have come, without a gap."""
        self._idles = 0
        self._events = EventCounter()
        self._replies: list[tuple[float, int, bytes]] = []
        self._began: float | None = None
        self._since = 0.0
        """Time of the last message that was sent, or response that was received."""
        self._size = 0

    def _pair_cwd(self, script: ReplayScript, cwd: str) -> None:
        for call in script.calls if cwd else ():
            recorded = members(message_of(call).get("params")).get("cwd")
            if isinstance(recorded, str):
                self._ids.pair_paths(recorded, cwd)
                self.directories = (recorded, cwd) if recorded != cwd else ("", "")
                return

    @property
    def is_finished(self) -> bool:
        """True if the end of the recording was reached, or cannot be reached."""
        return bool(self.failure) or self._position == len(self._plan)

    @property
    def is_full(self) -> bool:
        """True if so much waits to be sent that nothing more should be received."""
        return len(self._replies) >= MAX_REPLIES

    def disconnected(self, reason: str = "") -> None:
        """Take note that the agent sends nothing more."""
        if not self.is_finished:
            call = self._plan[self._position].frame
            before = "the end of the recording" if call is None else f"{call.method} (frame {call.number})"
            self.failure = f"the agent disconnected before {before}" + (f": {reason}" if reason else "")

    # --- receiving

    def receive(self, frame: bytes, now: float) -> None:
        """Process a message of the agent."""
        if self.failure:
            return
        content = self._log("to_client", frame, now)
        method = content.get("method")
        if isinstance(method, str):
            params = members(content.get("params"))
            update = members(params.get("update"))
            kind = update.get("sessionUpdate")
            self._events.add(kind if isinstance(kind, str) else method)
            if update.get("sessionUpdate") == "state_update" and update.get("state") == "idle":
                self._idles += 1
                self._since = now
            if "id" in content:
                self._answer(content["id"], method, params, now)
        else:
            self._responded_to(content.get("id"), content.get("result"), now)

    def _responded_to(self, request_id: Any, result: Any, now: float) -> None:
        """Process a response of the agent; one to no request of ours is only recorded."""
        if type(request_id) is not int or request_id not in self._sent:
            return
        number, method, _ = self._sent.pop(request_id)
        self._since = now
        self._responded.add(number)
        if (recorded := self._responses.get(number)) is None:
            return
        expected = message_of(recorded).get("result")
        self._ids.pair(expected, result)
        versions = [members(each).get("protocolVersion") for each in (expected, result)]
        if method == "initialize" and None not in versions and versions[0] != versions[1]:
            self.failure = f"the recording is of protocol version {versions[0]}, but the agent chose {versions[1]}"

    def _answer(self, request_id: Any, method: str, params: dict[str, Any], now: float) -> None:
        found = self._answers.find(method, params)
        if found is None:
            error = {"code": MethodNotFound.code, "message": f"the recording has no answer to {method}"}
            answer, latency = {"error": error}, 0.0
        else:
            answer, latency = found
        due = now if self._speed is None else now + min(latency / self._speed, self.timeout)
        frame = msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, **answer})
        self._last_id += 1
        heapq.heappush(self._replies, (due, self._last_id, frame))

    def _log(self, direction: FrameDirection, frame: bytes, now: float) -> dict[str, Any]:
        """Add a message to the entries; return its members, none if it is not JSON."""
        self._began = now if self._began is None else self._began
        self._size += len(frame) + FRAME_BYTES
        if self._size > MAX_BYTES:
            self.failure = f"the agent has sent more than {MAX_BYTES >> 20} MiB"
        t = round(now - self._began, 6)
        try:
            message = members(msgspec.json.decode(frame))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            text = frame.decode("utf-8", "replace")
            self.entries.append(Entry(t=t, dir=direction, text=text, invalid="not JSON"))
            return {}
        self.entries.append(Entry(t=t, dir=direction, frame=Raw(frame)))
        return message

    # --- sending

    def next(self, now: float) -> bytes | float | None:
        """Return the next frame to send; or the seconds until there may be one; or None at the end."""
        if self._replies and self._replies[0][0] <= now:
            frame = heapq.heappop(self._replies)[2]
            self._log("to_agent", frame, now)
            return frame
        if self.is_finished:
            return None
        self._began = now if self._began is None else self._began
        self._since = max(self._since, self._began)
        call = self._plan[self._position]
        rest = self._seconds_until(call, now)
        if self.failure:
            return None
        if rest > 0:
            return min(rest, self._replies[0][0] - now) if self._replies else rest
        self._position += 1
        self._events.forget(call.events)
        self._since = now
        return self.next(now) if call.frame is None else self._send(call, now)

    def _seconds_until(self, call: PlannedCall, now: float) -> float:
        """Return the seconds until a message may be sent; 0 or less if it may be sent now."""
        while self._in_order < len(self._order) and self._order[self._in_order] in self._responded:
            self._in_order += 1
        if self._in_order < call.responses or self._idles < call.idles:
            rest = self._since + self.timeout - now
            if rest <= 0:
                open_methods = sorted({method for _, method, _ in self._sent.values()})
                what = f"no response to {', '.join(open_methods)}" if open_methods else "the turn did not end"
                self.failure = f"{what} within {self.timeout:g} s"
            return rest
        pause = 0.0 if self._speed is None else min(call.pause / self._speed, self.timeout)
        if not self._has_settled(call):
            pause = max(pause, min(call.pause + SETTLE_SECONDS, self.timeout))
        return self._since + pause - now

    def _has_settled(self, call: PlannedCall) -> bool:
        """Return True if the agent has sent all that it had sent in the recording before this message."""
        if call.frame is not None and call.frame.method == CANCEL:
            session = self._ids.translate({"sessionId": call.frame.session})["sessionId"]
            if not any(method == PROMPT and of == session for _, method, of in self._sent.values()) and not call.idles:
                return True  # nothing is left to cancel
        counts = self._events.counts
        return all(counts[kind] >= count for kind, count in call.events.items())

    def _send(self, call: PlannedCall, now: float) -> bytes:
        assert call.frame is not None
        message: dict[str, Any] = self._ids.translate(message_of(call.frame))
        if call.frame.kind == "request":
            self._last_id += 1
            self._live_ids[call.frame.id] = message["id"] = self._last_id
            session = members(message.get("params")).get("sessionId")
            self._sent[self._last_id] = call.frame.number, call.frame.method, str(session or "")
        elif call.frame.method == CANCEL_REQUEST:
            params = members(message.get("params"))
            cancelled = params.get("requestId")
            if isinstance(cancelled, int | str):
                params["requestId"] = self._live_ids.get(cancelled, cancelled)
        frame = msgspec.json.encode(message)
        self._log("to_agent", frame, now)
        return frame
