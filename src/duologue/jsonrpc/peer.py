"""The state of one end of a JSON-RPC connection, without I/O.

Rules of this file: it never waits, it never raises for what the peer sends, and it tracks the unanswered requests of
both directions. `receive` turns a frame into an event or nothing; `frames_to_send` collects responses to bad input.

Requests of the peer                            Requests of ours
----------------------------------------------  -----------------------------------------------
receive(request)   -> running                   request()          -> pending
respond() / respond_error() -> answered, once   receive(response)  -> `Response`, once
cancel notification while running -> `Cancel`   cancel()           -> abandoned; a late response is dropped, or a
                                                                      `Response` for `late` if that was given
same id while running -> rejected, id null      unknown id         -> counted in `unmatched_responses`
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.errors import (
    DuologueError,
    EncodeError,
    InternalError,
    InvalidRequest,
    MessageTooLarge,
    MethodNotFound,
    ProtocolViolation,
    RequestError,
    error_for_code,
)
from duologue.jsonrpc.codec import (
    MAX_METHOD_CHARS,
    Malformed,
    is_legal_id,
    parse,
    serialize_error,
    serialize_notification,
    serialize_request,
    serialize_result,
)
from duologue.jsonrpc.framing import Oversized
from duologue.jsonrpc.messages import Cancel, ErrorObject, Id, JsonRpcMessage, Response

CANCEL_METHOD = "$/cancel_request"

MAX_PENDING = 4096
"""Requests in flight per direction: a turn in each of thousands of sessions, and small enough for a table."""

_PLAIN_IDS = 2**63
"""Ids below it, from 0 on, are legal without a closer look."""

Event = JsonRpcMessage | Response | Cancel


class _CancelParams(Struct, rename="camel"):
    request_id: int | str


_decode_cancel = msgspec.json.Decoder(_CancelParams).decode
_decode_error = msgspec.json.Decoder(ErrorObject).decode


class Peer:
    """Ids, correlation, cancellation and the rule that `initialize` comes first.

    Args:
        first_method: The method that must arrive before any other request, if there is one.
        ignore_stray_output: Count lines that do not begin like JSON instead of answering them: for a client whose
            agent prints banners.
        max_pending: How many requests of the peer may run at once; further ones are rejected as busy.
    """

    def __init__(
        self, *, first_method: str | None = None, ignore_stray_output: bool = False, max_pending: int = MAX_PENDING
    ) -> None:
        self._first_method = first_method
        self._first_id: Id | None = None
        self.awaits_first = first_method is not None
        """The first request has not arrived yet: other requests are rejected, and notifications are dropped."""
        self.repeats_first = False
        """The first request may be repeated, until another request arrives."""
        self._ignore_stray_output = ignore_stray_output
        self._max_pending = max_pending
        self._next_id = 0
        self._running: set[Id] = set()
        self._pending: dict[Id, Any] = {}
        self._abandoned: dict[Id, Any] = {}
        self._replies: list[bytes] = []
        self.unmatched_responses = 0
        self.has_received = False
        """A message has been received, whatever was received before it."""
        self.stray_lines = 0
        self.stray_bytes = 0
        self.first_stray_line = b""

    # --- what comes in

    def receive(self, frame: bytes) -> Event | None:
        """Return the event of a received frame; `None` if there is nothing to do but to send `frames_to_send`.

        Raises:
            MessageTooLarge: A message is too long and does not show which request it concerns; close the connection.
        """
        try:
            message = parse(frame)
        except Malformed as bad:
            return self._reject(frame, bad)
        self.has_received = True
        method = message.method
        if method is UNSET:
            return self._answered(message)
        if message.id is not UNSET:
            return self._requested(message, message.id)
        if method == CANCEL_METHOD:
            return self._cancelled(message)
        if self.awaits_first or len(method) > MAX_METHOD_CHARS:
            return None
        return message

    def frames_to_send(self) -> list[bytes]:
        """Return the responses to bad input since the last call."""
        replies, self._replies = self._replies, []
        return replies

    def _requested(self, message: JsonRpcMessage, id: Id) -> JsonRpcMessage | None:
        method: str = message.method  # type: ignore[assignment]  # only a message with a method and an id arrives here
        if (
            type(id) is not int
            or not 0 <= id < _PLAIN_IDS
            or id in self._running
            or len(self._running) >= self._max_pending
            or self.awaits_first
            or self.repeats_first
            or method == self._first_method
            or method == CANCEL_METHOD
            or not 0 < len(method) <= MAX_METHOD_CHARS
        ):
            rejection = self._rejection(id, method)
            if rejection is not None:
                self._reply_error(id, rejection)
                return None
            self.repeats_first = self.repeats_first and method == self._first_method
            if method == self._first_method:
                self.awaits_first = False
                self._first_id = id
        self._running.add(id)
        return message

    def _rejection(self, id: Id, method: str) -> RequestError | None:
        """Return the error for a request that may not run, or `None`."""
        if not is_legal_id(id):
            return InvalidRequest("the id is too long")
        if id in self._running:
            return InvalidRequest(f"a request with id {id!r} is still running")
        if not method or len(method) > MAX_METHOD_CHARS:
            return InvalidRequest(f"a method has 1 to {MAX_METHOD_CHARS} characters")
        if self.awaits_first and method != self._first_method:
            return InvalidRequest(f"{self._first_method} must come first")
        if method == self._first_method and not self.awaits_first and not self.repeats_first:
            return InvalidRequest(f"{method} was already called on this connection")
        if method == CANCEL_METHOD:
            return MethodNotFound(f"{CANCEL_METHOD} is a notification")
        if len(self._running) >= self._max_pending:
            return InternalError(f"busy: {self._max_pending} requests are already running")
        return None

    def _cancelled(self, message: JsonRpcMessage) -> Cancel | None:
        try:
            id = _decode_cancel(message.params) if message.params is not UNSET else None
        except msgspec.MsgspecError:
            return None
        return Cancel(id.request_id) if id is not None and id.request_id in self._running else None

    def _answered(self, message: JsonRpcMessage) -> Response | None:
        result, error = message.result, message.error
        call = self._pending.pop(message.id, UNSET)  # type: ignore[arg-type]  # no id is never there
        if call is UNSET:
            call = self._abandoned_call(message)
            if call is None:
                return None
        if error is UNSET:
            if result is UNSET:
                return Response(call, error=ProtocolViolation("the response has neither a result nor an error"))
            return Response(call, result)
        if result is not UNSET and bytes(error) == b"null":
            return Response(call, result)
        if result is not UNSET and bytes(result) != b"null":
            return Response(call, error=ProtocolViolation("the response has both a result and an error"))
        return Response(call, error=_read_error(error))

    def _abandoned_call(self, message: JsonRpcMessage) -> Any:
        """Return what is stored for an abandoned request that this response belongs to; `None` if there is none."""
        id = None if isinstance(message.id, UnsetType) else message.id
        if message.error is UNSET and (id is None or message.result is UNSET):
            self._reply_error(id, InvalidRequest("neither a request nor a response"))
        elif id is not None and id in self._abandoned:
            return self._abandoned.pop(id)
        else:
            self.unmatched_responses += 1
        return None

    def _reject(self, frame: bytes, bad: Malformed) -> Response | None:
        if self._ignore_stray_output and frame.lstrip(b" \t")[:1] not in (b"{", b"["):
            self.stray_lines += 1
            self.stray_bytes += frame.size if isinstance(frame, Oversized) else len(frame)
            self.first_stray_line = self.first_stray_line or frame[:200]
            return None
        if isinstance(frame, Oversized):
            return self._reject_oversized(frame)
        if not bad.is_response:
            self._reply_error(bad.id, bad.error)
            return None
        return self._fail_pending(bad.id, ProtocolViolation(f"the response is malformed: {bad.error.message}"))

    def _reject_oversized(self, frame: Oversized) -> Response | None:
        """Fail the request that a message over the size limit concerns, if its beginning shows which."""
        reason = f"a message of {frame.size} bytes is over the size limit"
        seen = read_incomplete(frame)
        id = seen.get("id")
        if isinstance(id, (int, str)) and not isinstance(id, bool) and is_legal_id(id):
            if "method" in seen:
                self._reply_error(id, InvalidRequest(reason))
                return None
            if "result" in seen or "error" in seen:
                return self._fail_pending(id, MessageTooLarge(reason))
        raise MessageTooLarge(f"{reason}, and it does not show which request it concerns")

    def _fail_pending(self, id: Id | None, error: DuologueError) -> Response | None:
        if id is None or id not in self._pending:
            self.unmatched_responses += 1
            return None
        return Response(self._pending.pop(id), error=error)

    def _reply_error(self, id: Id | None, error: RequestError) -> None:
        """Respond to bad input. The id is null where repeating it would be unsafe, or would answer another request."""
        can_echo = id is not None and is_legal_id(id) and id not in self._running
        self._replies.append(serialize_error(id if can_echo else None, error))

    # --- what goes out

    @property
    def pending(self) -> int:
        """How many requests of ours wait for a response."""
        return len(self._pending)

    def request(self, method: str, params: Any, call: Any) -> tuple[Id, bytes]:
        """Make a request; `call` is returned in its `Response`.

        Raises:
            EncodeError: The parameters are not JSON; nothing was started.
        """
        self._next_id = id = self._next_id + 1
        frame = serialize_request(id, method, params)
        self._pending[id] = call
        return id, frame

    def notification(self, method: str, params: Any) -> bytes:
        """Make a notification.

        Raises:
            EncodeError: The parameters are not JSON.
        """
        return serialize_notification(method, params)

    def respond(self, id: Id, result: Any) -> bytes | None:
        """Make the response to a request of the peer; `None` if it was answered already.

        Raises:
            EncodeError: The result is not JSON; the request is still unanswered.
        """
        if id not in self._running:
            return None
        frame = serialize_result(id, result)
        self._running.discard(id)
        if id == self._first_id:
            self._first_id = None
        return frame

    def respond_error(self, id: Id, error: RequestError) -> bytes | None:
        """Make the error response to a request of the peer; `None` if it was answered already.

        After a failed first request, the first request may be repeated.
        """
        if id not in self._running:
            return None
        self._running.discard(id)
        if id == self._first_id:
            self._first_id, self.awaits_first = None, True
        try:
            return serialize_error(id, error)
        except EncodeError:
            return serialize_error(id, _writable(error))

    def cancel(self, id: Id, *, late: Any = None) -> bytes | None:
        """Cancel a request of ours; return the notification for the peer, or `None` if it was answered already.

        A response that still arrives is dropped, or becomes a `Response` with `late` as its call if that is given.
        """
        if id not in self._pending:
            return None
        del self._pending[id]
        if len(self._abandoned) >= MAX_PENDING:
            del self._abandoned[next(iter(self._abandoned))]
        self._abandoned[id] = late
        return serialize_notification(CANCEL_METHOD, {"requestId": id})

    def close(self) -> list[Any]:
        """Forget all requests; return the calls that are still unanswered."""
        calls = list(self._pending.values())
        self._pending.clear()
        self._running.clear()
        return calls


def _writable(error: RequestError) -> RequestError:
    """Return the error without its data, which JSON cannot express; keep message and code if they are valid."""
    code, message = cast("tuple[object, object]", (error.code, error.message))
    if isinstance(code, int) and isinstance(message, str):
        return RequestError(message, code=code)
    return InternalError(type(error).__name__)


def _read_error(raw: Raw | UnsetType) -> Exception:
    try:
        error = _decode_error(raw if isinstance(raw, Raw) else b"null")
    except (msgspec.MsgspecError, RecursionError) as reason:
        return ProtocolViolation(f"the error of the response is malformed: {reason}")
    return error_for_code(error.code, error.message, error.data)


def read_incomplete(head: bytes) -> dict[str, Any]:
    """Read the members of an object whose end is missing; the value of the last member may be None."""
    import json  # needed for invalid messages only

    text = head.decode("utf-8", "replace")
    scan = json.JSONDecoder()
    seen: dict[str, Any] = {}
    try:
        at = _skip(text, 0, "{")
        while text[at] == '"':
            key, at = scan.raw_decode(text, at)
            seen[key] = None
            value, at = scan.raw_decode(text, _skip(text, at, ":"))
            at = _skip(text, at, ",")
            seen[key] = value  # only now: a number at the very end may have been cut
    except (ValueError, IndexError, RecursionError):
        pass
    return seen


def _skip(text: str, at: int, expected: str) -> int:
    """Return the position after whitespace, the expected character and more whitespace."""
    while text[at] in " \t\r\n":
        at += 1
    if not text.startswith(expected, at):
        raise ValueError(f"no {expected!r} at {at}")
    at += len(expected)
    while text[at] in " \t\r\n":
        at += 1
    return at
