"""Play the agent's side of a recording to a client."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw

from duologue.errors import InternalError, InvalidRequest, MethodNotFound, ParseError, RequestCancelled
from duologue.trace.frames import TracedFrame
from duologue.trace.identity import IdTranslator
from duologue.trace.replay.difference import CHANGING
from duologue.trace.replay.matcher import ExchangeMatcher, StrictMatcher
from duologue.trace.replay.script import ReplayScript, members, message_of
from duologue.trace.replay.turn import PlayedTurn

TIMEOUT_SECONDS = 300.0
"""Default of the longest wait for a message of the peer."""
MAX_TURNS = 1000
"""Requests of a client that are played at once."""
MAX_REPLIES = 1000
"""Responses that wait to be sent before reading stops."""
CANCEL = "session/cancel"
CANCEL_REQUEST = "$/cancel_request"


class AgentPlayer:
    """Answers a client as the recorded agent did.

    Args:
        script: The recording.
        is_strict: Fail at the first message of the client that is not the recorded one. Otherwise messages are matched
            by method and session, and what was not recorded is answered as well as possible.
        speed: Factor of the recorded speed; None for as fast as possible.
        timeout: Seconds to wait for a message of the client, and the longest pause that is repeated.
        ignored: Members and paths that a strict comparison leaves out.
        keeps_paths: Send recorded paths as they are, although the client's working directory is another one.

    Attributes:
        failure: Why a strict playback failed; empty if it did not.
    """

    def __init__(
        self,
        script: ReplayScript,
        *,
        is_strict: bool = False,
        speed: float | None = None,
        timeout: float = TIMEOUT_SECONDS,
        ignored: Sequence[str] = CHANGING,
        keeps_paths: bool = False,
    ) -> None:
        self.failure = ""
        self.timeout = timeout
        self._script = script
        self._speed = speed
        self._matcher = ExchangeMatcher(script, keeps_paths=keeps_paths)
        self._strict = StrictMatcher(script, ignored, keeps_paths=keeps_paths) if is_strict else None
        self._replies: deque[bytes] = deque()
        self._turns: deque[PlayedTurn] = deque()
        self._asked: dict[int, tuple[PlayedTurn, int]] = {}
        """Open requests of ours: the turn, and the number of the recorded frame."""
        self._last_id = 0
        self._since: float | None = None
        if script.exchanges and script.exchanges[0].request is None:
            self._turns.append(PlayedTurn(script.exchanges[0], None, IdTranslator(), 0.0))

    @property
    def is_finished(self) -> bool:
        """True if nothing more is played, whatever the client sends."""
        return bool(self.failure) and not self._replies

    @property
    def is_full(self) -> bool:
        """True if so much waits to be sent that nothing more should be received."""
        return len(self._replies) >= MAX_REPLIES

    def disconnected(self, reason: str = "") -> None:
        """Take note that the client sends nothing more."""
        if self._strict is not None and not self.failure and (missing := self._strict.missing()):
            self.failure = f"the client disconnected, but {missing} was expected{_because(reason)}"

    # --- receiving

    def receive(self, frame: bytes, now: float) -> None:
        """Process a message of the client."""
        self._since = now
        if self.failure:
            return
        try:
            message = msgspec.json.decode(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._reject(None, ParseError.code, f"not JSON: {error}")
            return
        content = members(message)
        method = content.get("method")
        if isinstance(method, str):
            self._called(content, method, now)
        elif "result" in content or "error" in content:
            self._answered(content)
        else:
            self._reject(content.get("id"), InvalidRequest.code, "expected a request, a notification or a response")

    def _reject(self, request_id: Any, code: int, reason: str) -> None:
        self._reply_error(request_id, code, reason)
        if self._strict is not None:
            self._fail(f"the client sent an invalid message: {reason}")

    def _called(self, message: dict[str, Any], method: str, now: float) -> None:
        params = members(message.get("params"))
        is_request = "id" in message
        if self._strict is not None and (problem := self._strict.check_call(method, params, is_request=is_request)):
            if is_request:
                self._reply_error(message["id"], InternalError.code, problem)
            self._fail(problem)
            return
        if not is_request and self._notified(method, params, now):
            return
        expected = None if self._strict is None else self._strict.matched
        found = self._matcher.find(method, params, is_request=is_request, expected=expected)
        if found is None:
            if is_request:
                self._reply_error(message["id"], MethodNotFound.code, f"the recording has no {method}")
            return
        if len(self._turns) >= MAX_TURNS:
            self._reply_error(message["id"], InternalError.code, f"more than {MAX_TURNS} requests at once")
            return
        exchange, ids = found
        self._turns.append(PlayedTurn(exchange, message.get("id"), ids, now, session=str(params.get("sessionId", ""))))

    def _fail(self, problem: str) -> None:
        """End a strict playback; requests that are being played are answered with the reason."""
        self.failure = problem
        for turn in self._turns:
            self._reject_turn(turn, problem)

    def _reject_turn(self, turn: PlayedTurn, reason: str) -> None:
        """Answer the request of a turn with an error, unless it was answered."""
        if turn.live_id is not None and not turn.is_answered:
            self._reply_error(turn.live_id, InternalError.code, reason)

    def _notified(self, method: str, params: dict[str, Any], now: float) -> bool:
        """Process a notification about a turn; return False if it is not about one."""
        session = str(params.get("sessionId", ""))
        if method == CANCEL_REQUEST:
            turns = [turn for turn in self._turns if turn.live_id == params.get("requestId")]
        else:
            turns = [turn for turn in self._turns if turn.exchange.is_prompt and turn.session == session]
        for turn in turns:
            if self._strict is not None:
                turn.notified[method] += 1
            elif not turn.skip_to(method, now) and method in (CANCEL, CANCEL_REQUEST):
                self._cancel(turn, method)
        return bool(turns) or method in (CANCEL, CANCEL_REQUEST)

    def _cancel(self, turn: PlayedTurn, method: str) -> None:
        """End a turn that was not cancelled in the recording."""
        self._end(turn)
        self._turns.remove(turn)
        if method == CANCEL_REQUEST:
            self._reply_error(turn.live_id, RequestCancelled.code, "cancelled")
        elif self._script.version == 1:
            if not turn.is_answered:
                self._reply({"id": turn.live_id, "result": {"stopReason": "cancelled"}})
        else:
            if not turn.is_answered and turn.exchange.response is not None:
                self._reply(self._translated(turn, turn.exchange.response))
            update = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}
            self._reply({"method": "session/update", "params": {"sessionId": turn.session, "update": update}})

    def _answered(self, message: dict[str, Any]) -> None:
        """Process a response to a request of ours; a stray one fails a strict playback."""
        request_id = message.get("id")
        turn, number = self._asked.pop(request_id, (None, 0)) if isinstance(request_id, int) else (None, 0)
        if turn is None:
            is_known = isinstance(request_id, int) and 0 < request_id <= self._last_id
            if self._strict is not None and not is_known:
                self._fail(f"the client answered a request that was not sent: id {request_id!r}")
            return
        turn.answered.add(number)
        recorded = self._script.answers.get(number)
        if recorded is None:
            return
        content = message_of(recorded)
        turn.ids.pair(content.get("result"), message.get("result"))
        if self._strict is not None and (problem := self._strict.check_answer(recorded, message)):
            self._fail(problem)

    # --- sending

    def next(self, now: float) -> bytes | float | None:
        """Return the next frame to send; or the seconds until there may be one; or None until one is received."""
        if self._replies:
            return self._replies.popleft()
        if self.failure:
            return None
        soonest: float | None = None
        for _ in range(len(self._turns)):
            turn = self._turns.popleft()
            found = self._advance(turn, now)
            if found is None:
                self._end(turn)
            else:
                self._turns.append(turn)
            if isinstance(found, bytes):
                return found
            if self._replies:
                return self._replies.popleft()
            if found is not None:
                soonest = found if soonest is None else min(soonest, found)
        return self._idle(now) if soonest is None else soonest

    def _idle(self, now: float) -> float | None:
        """Return the seconds until a strict playback fails because the client sends nothing."""
        missing = self._strict.missing() if self._strict is not None else ""
        if not missing:
            return None
        self._since = now if self._since is None else self._since
        rest = self._since + self.timeout - now
        if rest > 0:
            return rest
        self.failure = f"{missing} did not arrive within {self.timeout:g} s"
        return None

    def _advance(self, turn: PlayedTurn, now: float) -> bytes | float | None:
        """Return the next frame of a turn, or the seconds to wait for it; None if the turn has ended."""
        while (step := turn.step) is not None:
            if step.dir == "to_client":
                rest = turn.seconds_until(step, now, self._speed, self.timeout)
                if rest > 0:
                    return rest
                turn.done(now)
                return self._frame(turn, step)
            rest = turn.seconds_to_wait(step, now, self.timeout)
            if rest > 0:
                return rest
            if rest < 0 and not self._expire(turn, step):
                return None
            turn.done(now)
        self._reject_turn(turn, "the recording ends before the response to this request")
        return None

    def _end(self, turn: PlayedTurn) -> None:
        """Forget the open requests of a turn."""
        for request_id in turn.open_requests:
            self._asked.pop(request_id, None)

    def _expire(self, turn: PlayedTurn, step: TracedFrame) -> bool:
        """Handle a message of the client that did not come; return True if the turn goes on without it."""
        what = f"the response to {step.method}" if step.answers is not None else step.method
        reason = f"{what} (frame {step.number}) did not arrive within {self.timeout:g} s"
        if self._strict is not None:
            self._fail(reason)
        elif step.answers is None:
            return True
        self._reject_turn(turn, reason)
        return False

    def _frame(self, turn: PlayedTurn, step: TracedFrame) -> bytes:
        if step.kind == "notification" and turn.ids.is_empty:
            return bytes(cast("Raw", step.entry.frame))  # every step is a message
        return msgspec.json.encode(self._translated(turn, step))

    def _translated(self, turn: PlayedTurn, step: TracedFrame) -> dict[str, Any]:
        message: dict[str, Any] = turn.ids.translate(message_of(step))
        if step.kind == "request":
            self._last_id += 1
            self._asked[self._last_id] = turn, step.number
            turn.open_requests.add(self._last_id)
            message["id"] = self._last_id
        elif step.answers is not None:
            turn.is_answered = True
            message["id"] = turn.live_id
            self._matcher.learn_session(step, members(message.get("result")).get("sessionId"), turn.ids)
        return message

    def _reply(self, message: dict[str, Any]) -> None:
        self._replies.append(msgspec.json.encode({"jsonrpc": "2.0", **message}))

    def _reply_error(self, request_id: Any, code: int, reason: str) -> None:
        self._reply({"id": request_id, "error": {"code": code, "message": reason}})


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""
