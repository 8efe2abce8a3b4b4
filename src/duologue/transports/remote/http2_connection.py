"""HTTP/2 for clients, with one request at a time on each connection, as in HTTP/1.1; experimental.

Requests could share a connection, but then an event stream that waits for its reader would block the others.
"""

from __future__ import annotations

import asyncio

import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from hyperframe.frame import Frame, GoAwayFrame

from duologue.transports.remote.http_connection import (
    MAX_HEAD_BYTES,
    READ_AHEAD,
    HttpConnection,
    HttpError,
    HttpRequest,
)

NOT_IN_HTTP2 = {"connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}


class _ClientState(h2.connection.H2Connection):
    """Receive the responses to requests that a server accepted before it announced the end of the connection."""

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        state, output = self.state_machine.state, self._data_to_send
        received = super()._receive_goaway_frame(frame)
        if not frame.error_code:
            self.state_machine.state, self._data_to_send = state, output
        return received


class Http2Connection(HttpConnection):
    """Send requests over HTTP/2."""

    def _start(self) -> None:
        self._state = _ClientState()
        self._stream = 0
        self._max_unwritten = MAX_HEAD_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        codes = h2.settings.SettingCodes
        values = {
            codes.ENABLE_PUSH: 0,
            codes.INITIAL_WINDOW_SIZE: READ_AHEAD,
            codes.MAX_HEADER_LIST_SIZE: MAX_HEAD_BYTES,
        }
        self._state.local_settings = h2.settings.Settings(client=True, initial_values=values)
        self._state.initiate_connection()
        self._state.increment_flow_control_window(READ_AHEAD)
        self._flush()

    @property
    def is_reusable(self) -> bool:
        return super().is_reusable and self._state.state_machine.state is not h2.connection.ConnectionState.CLOSED

    def _write(self, request: HttpRequest) -> None:
        try:
            self._send_request(request)
        except h2.exceptions.ProtocolError as error:  # such as a server that allows no streams now
            self.fail(f"the server does not accept the request: {error}")

    def _send_request(self, request: HttpRequest) -> None:
        self._stream = self._state.get_next_available_stream_id()
        names = [(":method", request.method), (":scheme", request.scheme)]
        names += [(":authority", request.authority), (":path", request.target)]
        names += [(name.lower(), value) for name, value in request.headers if name.lower() not in NOT_IN_HTTP2]
        self._unsent = memoryview(request.body or b"")
        self._max_unwritten = MAX_HEAD_BYTES + len(self._unsent)
        if request.body is not None:
            names.append(("content-length", str(len(request.body))))
        self._state.send_headers(self._stream, names, end_stream=not self._unsent)
        self._flush()
        self._send_body()

    def _send_body(self) -> None:
        """Send as much of the body as the server accepts now."""
        while self._unsent and not self._is_congested:
            capacity = min(
                self._state.local_flow_control_window(self._stream),
                self._state.max_outbound_frame_size,
                len(self._unsent),
            )
            if capacity <= 0:
                break
            part, self._unsent = self._unsent[:capacity], self._unsent[capacity:]
            self._state.send_data(self._stream, bytes(part), end_stream=not self._unsent)
            self._flush()

    def _flush(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self._state.data_to_send())

    def _consumed(self, size: int) -> None:
        self._state.acknowledge_received_data(size, self._stream)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self.has_answered = True
        self._last_active = self._loop.time()
        try:
            for event in self._state.receive_data(data):
                self._on_event(event)
            self._flush()
            self._send_body()
        except (h2.exceptions.ProtocolError, ValueError) as error:
            self.fail(f"the server sent no valid HTTP/2: {error}")
        if self.transport.get_write_buffer_size() > self._max_unwritten:
            self.fail("the server does not read the responses to its pings and settings")
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._failure is None and not self._is_complete:  # no body ends with its connection here
            self._failure = HttpError(f"the server closed the connection{'' if exc is None else f': {exc}'}")
        super().connection_lost(exc)

    def _on_event(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            self._keeps_alive = False
            if not self._is_complete and (event.last_stream_id or 0) < self._stream:
                self.fail(f"the server ended the connection: error {event.error_code}")
        if getattr(event, "stream_id", None) != self._stream:
            return
        match event:
            case h2.events.ResponseReceived(headers=headers):
                for name, value in headers:
                    if name == b":status":
                        self.status = int(value)
                    else:
                        self.on_header(name, value)
                self._is_waiting_for_head = False
            case h2.events.DataReceived(data=body, flow_controlled_length=size):
                if body:
                    self._body.append(body)
                self._body_bytes += size  # with padding, which counts in the window
            case h2.events.StreamEnded():
                if self._unsent:  # the stream stays open, because the rest of the request is not sent
                    self._keeps_alive, self._unsent = False, memoryview(b"")
                self._is_complete = True
                self.idle_since = self._loop.time()
            case h2.events.StreamReset(error_code=code) if not self._is_complete:
                self.fail(f"the server broke off its response: error {code}")
            case _:
                pass
