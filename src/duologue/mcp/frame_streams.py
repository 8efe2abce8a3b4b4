"""Streams for the SDK on top of our transports.

They do what the SDK's own stdio client does not: the child's environment is a stated policy, its process tree always
ends with this process, its stderr is in the error message, a line has a limit, and stray output on stdout is ignored.
"""

from __future__ import annotations

import re
from collections import deque

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from duologue.errors import ConnectionLost, DuologueError, MessageTooLarge
from duologue.jsonrpc.framing import Oversized
from duologue.mcp.stdio_streams import Reader, Writer
from duologue.transports.base import Transport
from duologue.transports.process.transport import ProcessTransport

_ANSWER = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,\s*(?:"jsonrpc"|"result"|"error")'
)
"""The beginning of a response with its id where most servers write it. Ids of our requests are small integers."""


class McpFrameReader(Reader):
    """Reads messages from a transport.

    Attributes:
        failure: The error that ended the stream, unless the other side just closed it.
    """

    def __init__(self, transport: Transport) -> None:
        self.failure: DuologueError | None = None
        self._transport = transport
        self._frames: deque[bytes] = deque()

    @property
    def stderr_tail(self) -> str:
        """The end of what the server wrote to stderr, if it is a process."""
        return self._transport.stderr_tail if isinstance(self._transport, ProcessTransport) else ""

    async def receive(self) -> SessionMessage | Exception:
        while True:
            while self._frames:
                if (message := self._read(self._frames.popleft())) is not None:
                    return message
            try:
                self._frames.extend(await self._transport.receive())
            except DuologueError as failure:
                self.failure = failure
            if not self._frames:
                raise anyio.EndOfStream

    def _read(self, frame: bytes) -> SessionMessage | Exception | None:
        if not frame.lstrip(b" \t").startswith(b"{"):
            return None
        if isinstance(frame, Oversized):
            return self._reject(frame)
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(frame, by_name=False))
        except ValueError as error:
            return error

    def _reject(self, frame: Oversized) -> SessionMessage:
        """Fail the request that an oversized response answers; end the connection if its id cannot be found."""
        reason = f"the server sent a message of {frame.size} bytes, which is over the limit"
        if (answer := _ANSWER.match(frame)) is None:
            self.failure = MessageTooLarge(reason)
            raise anyio.EndOfStream
        error = ErrorData(code=INTERNAL_ERROR, message=reason)
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(answer[1]), error=error))


class McpFrameWriter(Writer):
    """Writes messages to a transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, item: SessionMessage) -> None:
        frame = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        try:
            self._transport.send(frame)
            if self._transport.is_congested:
                await self._transport.drain()
        except ConnectionLost as lost:
            raise anyio.BrokenResourceError from lost
