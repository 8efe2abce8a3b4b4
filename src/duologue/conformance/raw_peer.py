"""A peer of JSON-RPC that can send anything, valid or not, and keeps everything it receives.

Written by hand because the connection of `duologue.runtime` exists to make wrong messages impossible.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Self, TypeAlias

import msgspec
from msgspec import Struct

from duologue.conformance.wait_limit import WaitLimit
from duologue.conformance.wire_log import ConnectionLog
from duologue.errors import ConnectionLost, DuologueError, MessageTooLarge
from duologue.recording.format import FrameDirection
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Transport
from duologue.transports.buffered import READ_AHEAD, BufferedTransport

Json: TypeAlias = dict[str, Any]
Responder: TypeAlias = "Callable[[ReceivedMessage], Awaitable[Json | None]]"
"""Returns `{"result": …}` or `{"error": …}` for a request; None to leave it without a response."""

MAX_MESSAGES = 100_000
"""Messages of a peer that a connection accepts."""
END_SECONDS = 5.0
FIRST_ID = 1000
"""Requests are numbered from here, so that their ids differ from those that a peer counts from 0 or 1."""
PILE_UP_SECONDS, PILE_UP_STEPS = 1.0, 50
"""How long a slow reader waits at most before it reads; what it then receives does not depend on it."""
BARRIER = "_duologue/barrier"
"""A method that no peer has; its response proves that everything sent before it was read."""


class PeerFailed(DuologueError):
    """The peer did not do what every peer must: it sent no response, disconnected, or flooded the checker."""


class ReceivedMessage(Struct, frozen=True):
    """A message of the peer.

    Attributes:
        number: Its number in the case.
        message: The message; empty if it is not a JSON object.
        text: The frame as it was received.
    """

    number: int
    message: Json
    text: bytes = b""

    @property
    def method(self) -> str:
        """Method of a request or notification; empty for a response."""
        method = self.message.get("method")
        return method if isinstance(method, str) else ""

    @property
    def is_request(self) -> bool:
        """True if it wants a response."""
        return "method" in self.message and "id" in self.message

    @property
    def is_response(self) -> bool:
        """True if it is a response, whether result or error."""
        return "method" not in self.message and "id" in self.message

    @property
    def params(self) -> Json:
        """Its parameters; empty if they are not an object."""
        return _object(self.message.get("params"))

    @property
    def result(self) -> Json:
        """Its result; empty if there is none or it is not an object."""
        return _object(self.message.get("result"))

    @property
    def error(self) -> Json:
        """Its error; empty if there is none or it is not an object."""
        return _object(self.message.get("error"))

    @property
    def code(self) -> int | None:
        """Code of its error; None if it is not one."""
        code = self.error.get("code")
        return code if isinstance(code, int) else None

    def objects_in(self, name: str) -> list[Json]:
        """Return the objects of a list in its result."""
        return objects(self.result.get(name))

    @property
    def update(self) -> Json:
        """The session update in it; empty if it is none."""
        return _object(self.params.get("update")) if self.method == "session/update" else {}

    @property
    def update_kind(self) -> str:
        """Kind of the session update in it."""
        return str(self.update.get("sessionUpdate", ""))


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


class RawPeer:
    """One end of a connection.

    Args:
        transport: The connection; it is entered and closed with this object.
        log: Where every message goes.
        receiver: Who receives what is sent here.
        limit: The limit of any single wait for the peer.

    Attributes:
        received: Every message of the peer, in order.
        responders: Functions that answer the peer's requests, by method; any other request gets -32601.
        ended: Set when the peer has disconnected.
        barriers: Ids of the requests that `barrier` sent.
        barrier_request: Method and parameters of these requests.
        on_long_wait: Called when a single wait has taken some seconds.
    """

    def __init__(self, transport: Transport, log: ConnectionLog, receiver: FrameDirection, limit: WaitLimit) -> None:
        self.transport = transport
        self.received: list[ReceivedMessage] = []
        self.responders: dict[str, Responder] = {}
        self.ended = asyncio.Event()
        self.barriers: set[object] = set()
        self.barrier_request: tuple[str, Json] = (BARRIER, {})
        self.on_long_wait: Callable[[], None] = lambda: None
        self.limit = limit
        self.end_reason = ""
        self._log = log
        self._receiver: FrameDirection = receiver
        self._sender: FrameDirection = "to_client" if receiver == "to_agent" else "to_agent"
        self._next_id = FIRST_ID
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._sent_ids: list[object] = []
        self._numbers: dict[object, int] = {}
        self._arrived = asyncio.Condition()
        self._scope: TaskScope | None = None

    async def __aenter__(self) -> Self:
        await self.transport.__aenter__()
        self._scope = TaskScope()
        self._scope.start(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.transport.aclose()
        finally:
            if self._scope is not None:
                await self._scope.cancel(END_SECONDS)

    def log_to(self, log: ConnectionLog) -> None:
        """Log the messages elsewhere from now on."""
        self._log = log

    @contextlib.contextmanager
    def unlogged(self) -> Generator[None]:
        """Leave the messages of a block out of the log, because they are many and all alike."""
        self._log.is_muted = True
        try:
            yield
        finally:
            self._log.is_muted = False

    # Sending

    def send(self, message: Json) -> int:
        """Send a valid message; return its number in the case."""
        frame = msgspec.json.encode({"jsonrpc": "2.0", **message})
        number = self._log.add(self._receiver, frame)
        self._remember(message, number)
        self._send(frame)
        return number

    def send_raw(self, frame: bytes) -> int:
        """Send anything, such as what breaks the protocol on purpose; return its number in the case."""
        number = self._log.add(self._receiver, frame, is_deliberate=True)
        self._send(frame)
        return number

    def note_sent(self, frame: bytes) -> int:
        """Remember a message that is written to the transport in another way; return its number in the case."""
        return self._log.add(self._receiver, frame)

    def send_invalid(self, message: Json) -> int:
        """Send a message that breaks the protocol on purpose; return its number in the case."""
        number = self.send_raw(msgspec.json.encode({"jsonrpc": "2.0", **message}))
        self._remember(message, number)
        return number

    def _remember(self, message: Json, number: int) -> None:
        if "method" in message and "id" in message:
            self._sent_ids.append(message["id"])
            self._numbers[message["id"]] = number

    def send_with(self, send: Callable[[bytes], None], data: bytes) -> None:
        """Send bytes in a way that only the transport of the case has.

        Raises:
            PeerFailed: The connection ended.
        """
        self._send(data, send)

    def _send(self, frame: bytes, send: Callable[[bytes], None] | None = None) -> None:
        try:
            (send or self.transport.send)(frame)
        except ConnectionLost as error:
            raise PeerFailed(f"the connection ended: {self.end_reason or error}") from error

    def notify(self, method: str, params: Json) -> int:
        """Send a notification; return its number in the case."""
        return self.send({"method": method, "params": params})

    def next_id(self) -> int:
        """Return an id that no request had before."""
        self._next_id += 1
        return self._next_id

    def start_request(self, method: str, params: Json | None = None) -> int:
        """Send a request and return its id, without waiting for the response."""
        id_ = self.next_id()
        self.send({"id": id_, "method": method, "params": params or {}})
        return id_

    async def request(self, method: str, params: Json | None = None) -> ReceivedMessage:
        """Send a request and return its response.

        Raises:
            PeerFailed: There is none in time.
        """
        return await self.response(self.start_request(method, params), method)

    async def answer_to(self, method: str, params: Json) -> ReceivedMessage:
        """Send a request whose params break the protocol on purpose, and return its response.

        Raises:
            PeerFailed: There is none in time.
        """
        id_ = self.next_id()
        self.send_invalid({"id": id_, "method": method, "params": params})
        return await self.response(id_, method)

    async def response(self, id_: object, what: str = "a request", *, may_end: bool = False) -> ReceivedMessage:
        """Return the response with this id, once it has arrived.

        Args:
            id_: The id of the request.
            what: The request, for the error.
            may_end: True if the peer breaks no rule by disconnecting instead.

        Raises:
            PeerFailed: There is none in time.
        """
        try:
            return await self.wait_for(lambda each: each.is_response and is_same(each.message["id"], id_), what)
        except PeerFailed:
            if not (may_end and self.ended.is_set()):
                self._log.note_unanswered(self._numbers.get(id_))
            raise

    async def barrier(self, *, may_end: bool = False) -> ReceivedMessage:
        """Wait until the peer has read everything that was sent so far, proved by its response to a new request."""
        id_ = self.start_request(*self.barrier_request)
        self.barriers.add(id_)
        return await self.response(id_, "a later request", may_end=may_end)

    # Receiving

    def unasked(self, after: int = 0) -> list[ReceivedMessage]:
        """Return the responses after a position of `received` whose ids no request of this end has."""
        return [
            each
            for each in self.received[after:]
            if each.is_response and not any(is_same(each.message["id"], sent) for sent in self._sent_ids)
        ]

    async def wait_for(
        self,
        matches: Callable[[ReceivedMessage], bool],
        what: str,
        after: int = 0,
        seconds: float | None = None,
    ) -> ReceivedMessage:
        """Return the first message after position `after` of `received` that matches, once it has arrived.

        Raises:
            PeerFailed: There is none in time, or the peer disconnects before.
        """
        limit = self.limit.seconds if seconds is None else seconds
        timer = asyncio.get_running_loop().call_later(self.limit.long_seconds, self.on_long_wait)
        try:
            async with self.limit.bound(limit):
                return await self._first(matches, what, after)
        except TimeoutError:
            raise PeerFailed(f"no response to {what} within {limit:g} s") from None
        finally:
            timer.cancel()

    async def _first(self, matches: Callable[[ReceivedMessage], bool], what: str, position: int) -> ReceivedMessage:
        while True:
            while position < len(self.received):
                if matches(self.received[position]):
                    return self.received[position]
                position += 1
            if self.ended.is_set():
                raise PeerFailed(f"no response to {what}: {self.end_reason or 'the peer disconnected'}")
            async with self._arrived:
                if position >= len(self.received) and not self.ended.is_set():
                    await self._arrived.wait()

    def pause_reading(self) -> None:
        """Stop taking messages from the transport, as a slow client does."""
        self._may_read.clear()

    async def let_pile_up(self) -> None:
        """Wait a moment for messages that are not taken from the transport, until they are so many that it stops."""
        for _ in range(PILE_UP_STEPS):
            if isinstance(self.transport, BufferedTransport) and self.transport.unread_bytes > READ_AHEAD:
                return
            await asyncio.sleep(PILE_UP_SECONDS / PILE_UP_STEPS)

    def resume_reading(self) -> None:
        """Take messages from the transport again."""
        self._may_read.set()

    async def _next_frames(self) -> list[bytes]:
        await self._may_read.wait()
        return await self.transport.receive()

    async def _read(self) -> None:
        try:
            while frames := await self._next_frames():
                for frame in frames:
                    await self._take(frame)
        except (ConnectionLost, MessageTooLarge, PeerFailed) as error:
            self.end_reason = str(error)
        self.ended.set()
        async with self._arrived:
            self._arrived.notify_all()

    async def _take(self, frame: bytes) -> None:
        if len(self.received) >= MAX_MESSAGES:
            raise PeerFailed(f"the peer sent more than {MAX_MESSAGES:,} messages")
        number = self._log.add(self._sender, frame)
        try:
            message = _object(msgspec.json.decode(frame))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            message = {}
        received = ReceivedMessage(number, message, frame if not message else b"")
        self.received.append(received)
        async with self._arrived:
            self._arrived.notify_all()
        if received.is_request and self._scope is not None:
            self._scope.start(self._respond(received))

    async def _respond(self, request: ReceivedMessage) -> None:
        responder = self.responders.get(request.method)
        answer: Json | None = {"error": {"code": -32601, "message": f"method not found: {request.method}"}}
        if responder is not None:
            answer = await responder(request)
        if answer is not None and not self.ended.is_set():
            try:
                self.send({"id": request.message["id"], **answer})
            except PeerFailed:
                return


def objects(value: object) -> list[Json]:
    """Return the objects in a list; nothing if it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def is_same(one: object, other: object) -> bool:
    """Return True if two ids are equal in value and in type: "1" is not 1, and neither is true."""
    return type(one) is type(other) and one == other
