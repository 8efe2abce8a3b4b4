"""Read frames as messages with their meaning: the request that a response answers, the version of the protocol."""

from __future__ import annotations

import msgspec
from msgspec import Raw, UnsetType

from duologue.errors import InvalidRequest
from duologue.jsonrpc.codec import Malformed, is_legal_id, parse
from duologue.jsonrpc.envelope import Ambiguous, PendingRequests, check_names
from duologue.jsonrpc.framing import Oversized
from duologue.jsonrpc.messages import JsonRpcMessage
from duologue.jsonrpc.peer import read_incomplete
from duologue.proxy.values import WireMessage
from duologue.recording.format import FrameDirection
from duologue.transports.methods import INITIALIZE

MAX_OPEN_REQUESTS = 10_000
"""Requests of one side whose methods are remembered; of those before, the responses have no method."""

OPPOSITE: dict[FrameDirection, FrameDirection] = {"to_agent": "to_client", "to_client": "to_agent"}


class _Initialized(msgspec.Struct, rename="camel"):
    protocol_version: int = 1


class MessageReader:
    """Reads the frames of one connection, in both directions, in the order in which they pass."""

    def __init__(self) -> None:
        self.version = 1
        self._requests: dict[FrameDirection, PendingRequests[str]] = {
            "to_agent": PendingRequests(),
            "to_client": PendingRequests(),
        }

    def read(self, direction: FrameDirection, frame: bytes) -> WireMessage:
        """Return the message of a frame; it is `invalid` if the frame is no message, or could be read differently."""
        try:
            if isinstance(frame, Oversized):
                raise _oversized(frame)
            message = parse(frame)
            check_names(frame)
        except Malformed as malformed:
            return WireMessage(direction=direction, kind="invalid", frame=frame, problem=malformed)
        except Ambiguous as ambiguous:
            problem = Malformed(InvalidRequest(f"ambiguous: {ambiguous}"))
            return WireMessage(direction=direction, kind="invalid", frame=frame, problem=problem)
        if isinstance(message.method, UnsetType):
            return self._response(direction, frame, message)
        content = Raw(b"{}") if isinstance(message.params, UnsetType) else message.params
        read = WireMessage(
            direction=direction,
            kind="notification",
            frame=frame,
            method=message.method,
            version=self.version,
            content=content,
        )
        if not isinstance(message.id, UnsetType):
            read.kind, read.id = "request", message.id
            requests = self._requests[direction]
            requests.add(message.id, message.method)
            if len(requests) > MAX_OPEN_REQUESTS:
                requests.answered(next(iter(requests.ids())))
        return read

    def _response(self, direction: FrameDirection, frame: bytes, message: JsonRpcMessage) -> WireMessage:
        assert not isinstance(message.id, UnsetType), "a message without a method has an id"
        method = self._requests[OPPOSITE[direction]].answered(message.id) or ""
        if method == INITIALIZE and direction == "to_client" and not isinstance(message.result, UnsetType):
            self._set_version(message.result)
        return WireMessage(
            direction=direction,
            kind="response",
            frame=frame,
            method=method,
            id=message.id,
            version=self.version,
            content=Raw(b"null") if isinstance(message.result, UnsetType) else message.result,
            is_error=isinstance(message.result, UnsetType),
        )

    def answered(self, message: WireMessage) -> None:
        """Forget a request that does not reach its receiver."""
        if message.kind == "request" and message.id is not None:
            self._requests[message.direction].answered(message.id)

    def _set_version(self, result: Raw) -> None:
        try:
            version = msgspec.json.decode(result, type=_Initialized).protocol_version
        except msgspec.MsgspecError:
            return
        if version in (1, 2):
            self.version = version


def _oversized(frame: Oversized) -> Malformed:
    """Describe a message over the size limit, with the request that it is or answers, if its beginning shows it."""
    seen = read_incomplete(frame)
    id = seen.get("id")
    is_id = isinstance(id, int | str) and not isinstance(id, bool) and is_legal_id(id)
    error = InvalidRequest(f"a message of {frame.size} bytes is over the size limit")
    return Malformed(error, id if is_id else None, is_response="method" not in seen)
