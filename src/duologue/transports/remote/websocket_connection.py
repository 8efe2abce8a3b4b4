"""One WebSocket as a transport needs it: text messages the moment they arrive, and writing that never waits.

The library's own `recv()` and `send()` wait for each message; a transport must not.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from websockets.asyncio.client import ClientConnection
from websockets.client import ClientProtocol
from websockets.frames import BINARY, CONT, TEXT, CloseCode, Frame
from websockets.protocol import OPEN, Event

from duologue.errors import ConnectionLost, DuologueError, MessageTooLarge, OutputLimitExceeded, ResumeFailed
from duologue.transports.masked_frames import write_masked_text
from duologue.transports.remote.small_reads import SmallReads
from duologue.transports.resume.protocol import HISTORY_LOST, REPLACED
from duologue.transports.stall_check import StallCheck

TEMPORARY = {CloseCode.GOING_AWAY, CloseCode.SERVICE_RESTART, CloseCode.TRY_AGAIN_LATER}
"""Sent by a server that can be reached again."""

SERVER_FAULT = {CloseCode.PROTOCOL_ERROR, CloseCode.INVALID_DATA, CloseCode.MESSAGE_TOO_BIG}
"""Sent by this client because of a fault of the server, which would repeat it."""


HEAD_END = b"\r\n\r\n"

WHOLE_TEXT = 0x81
"""The first byte of a text message in one frame."""

SHORT = 126
"""Longer messages have their length after the second byte."""

TOO_LONG = 1 << 64
"""In place of the length of a masked frame, which a server must not send: the library rejects both."""


class ConnectionListener(Protocol):
    """Receive the events of a WebSocket."""

    def on_messages(self, connection: WebSocketConnection, frames: list[bytes], /) -> None:
        """Process messages that arrived."""

    def update_congestion(self) -> None:
        """Check again whether the connection is congested."""


class WebSocketConnection(ClientConnection, SmallReads):
    """A WebSocket that calls a listener.

    Attributes:
        listener: Receives the events; messages that arrive before it is set wait.
        has_stalled: The connection was aborted because the server read nothing for too long.
        stall_check: Aborts it; `stall_check.seconds` is set after how long.
    """

    def __init__(self, protocol: ClientProtocol, **options: object) -> None:
        super().__init__(protocol, **options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] # the library's own options
        self.listener: ConnectionListener | None = None
        self.has_stalled = False
        self._messages: list[bytes] = []
        self._fragments: bytearray | None = None
        self._handshake: bytes | None = b""
        """The last bytes of an incomplete response to the handshake; `None` once it is complete."""
        self._is_split = False
        self._partial = bytearray()
        self._partial_size = 0
        self._written = 0
        self.stall_check = StallCheck(self._progress, self._on_stall)

    # Reading

    def data_received(self, data: bytes) -> None:
        if self._handshake is not None:
            data = self._end_handshake(self._handshake, data)
        if self._is_split:
            self._split(data)
        elif data:
            super().data_received(data)
        self.deliver()

    def _end_handshake(self, before: bytes, data: bytes) -> bytes:
        """Pass the response to the handshake to the library; return what follows it."""
        end = (before + data).find(HEAD_END)
        if end < 0:
            self._handshake = (before + data)[1 - len(HEAD_END) :]
            super().data_received(data)
            return b""
        end += len(HEAD_END) - len(before)
        super().data_received(data[:end])
        self._handshake = None
        self._is_split = self.protocol.state is OPEN and not self.protocol.extensions
        return data[end:]

    def _split(self, data: bytes) -> None:
        """Split data into frames; deliver messages of one frame, which most are, and pass the rest to the library."""
        if self._partial:
            self._partial += data
            if len(self._partial) < self._partial_size:
                return
            data, self._partial = bytes(self._partial), bytearray()
        self._partial_size = begin = 0
        limit = self.protocol.max_message_size or TOO_LONG - 1
        while (found := frame_at(data, begin)) is not None:
            body, end = found
            if end - body > limit:  # the library says what is wrong
                self._is_split = False
                super().data_received(data[begin:])
                return
            if end > len(data):
                self._partial_size = end - begin
                break
            if data[begin] == WHOLE_TEXT and self._fragments is None:
                self._message(data[body:end])
            else:
                super().data_received(data[begin:end])
                if self.protocol.state is not OPEN:
                    self._is_split = False
                    super().data_received(data[end:])
                    return
            begin = end
        self._partial += data[begin:]

    def deliver(self) -> None:
        """Pass what has arrived to the listener."""
        if self._messages and self.listener is not None:
            messages, self._messages = self._messages, []
            self.listener.on_messages(self, messages)

    def process_event(self, event: Event) -> None:
        if not isinstance(event, Frame) or event.opcode not in (TEXT, BINARY, CONT):
            super().process_event(event)
        elif event.opcode is TEXT and event.fin:
            self._message(bytes(event.data))
        elif event.opcode is TEXT:
            self._fragments = bytearray(event.data)
        elif event.opcode is CONT and self._fragments is not None:  # otherwise a fragment of a binary message
            self._fragments += event.data
            if event.fin:
                message, self._fragments = bytes(self._fragments), None
                self._message(message)

    def _message(self, message: bytes) -> None:
        if not message.isascii():
            try:
                message.decode()
            except UnicodeDecodeError as error:
                if self.protocol.state is OPEN:
                    self.protocol.fail(CloseCode.INVALID_DATA, f"{error.reason} at position {error.start}")
                    self.send_data()
                return
        self._messages.append(message)

    # Writing

    @property
    def unwritten(self) -> int:
        """Bytes that wait to be sent."""
        return self.transport.get_write_buffer_size()

    def put(self, frame: bytes) -> None:
        """Write one text message; on a closed connection this does nothing."""
        if self.protocol.state is OPEN:
            self._written += len(frame)
            if self.protocol.extensions:
                self.protocol.send_text(frame)
                self.send_data()
            else:
                self.transport.write(write_masked_text(frame))

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stall_check.start()
        if self.listener is not None:
            self.listener.update_congestion()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unpause()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unpause()

    def _unpause(self) -> None:
        self.stall_check.stop()
        if self.listener is not None:
            self.listener.update_congestion()

    def _progress(self) -> int:
        return self._written - self.unwritten

    def _on_stall(self) -> None:
        self.has_stalled = True
        self.transport.abort()


def frame_at(data: bytes, begin: int) -> tuple[int, int] | None:
    """Return where the body of a frame begins and ends; `None` if its head is incomplete."""
    body = begin + 2
    if body > len(data):
        return None
    size = data[begin + 1]
    if size < SHORT:
        return body, body + size
    if size > SHORT + 1:
        return body, body + TOO_LONG
    width = 2 if size == SHORT else 8
    if body + width > len(data):
        return None
    size = int.from_bytes(data[body : body + width], "big")
    return body + width, body + width + size


class CloseReason(NamedTuple):
    """How a WebSocket ended.

    Attributes:
        failure: What went wrong; `None` after a proper end.
        is_broken: It ended by accident, so it makes sense to reconnect.
    """

    failure: DuologueError | None
    is_broken: bool = False


def close_reason(connection: WebSocketConnection) -> CloseReason:
    """Return why a closed WebSocket ended."""
    if connection.has_stalled:
        return CloseReason(OutputLimitExceeded(f"the server read nothing for {connection.stall_check.seconds:g} s"))
    theirs, ours = connection.protocol.close_rcvd, connection.protocol.close_sent
    if theirs is None:
        if ours is not None and ours.code in SERVER_FAULT:
            kind = MessageTooLarge if ours.code == CloseCode.MESSAGE_TOO_BIG else ConnectionLost
            return CloseReason(kind(f"the server violated the WebSocket protocol: {ours.reason}"))
        return CloseReason(ConnectionLost("the connection broke"), is_broken=True)
    if theirs.code in TEMPORARY:
        return CloseReason(ConnectionLost(f"the server is shutting down: {theirs}"), is_broken=True)
    if theirs.code == HISTORY_LOST:
        return CloseReason(history_lost(theirs.reason))
    if theirs.code == REPLACED:
        return CloseReason(ConnectionLost("another client resumed this connection"))
    if theirs.code in (CloseCode.NORMAL_CLOSURE, CloseCode.NO_STATUS_RCVD):
        return CloseReason(None)
    return CloseReason(ConnectionLost(f"the server closed the connection: {theirs}"))


def history_lost(reason: str) -> ResumeFailed:
    """Return the error for a connection that cannot be resumed."""
    text = f"what was missed while the connection was broken is lost: {reason or 'no reason given'}"
    return ResumeFailed(text if "load the session" in reason else f"{text}; load the session")
