"""Frames over a connected stream socket, one per line."""

from __future__ import annotations

import socket
from typing import Self

from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES
from duologue.transports.buffered import MAX_QUEUED_BYTES
from duologue.transports.stdio.fd_streams import open_duplex
from duologue.transports.stdio.line_stream import InputAndOutput, LineStreamTransport

OUTPUT_STALL_SECONDS = 60.0
"""A peer across a network that reads nothing for this long is gone."""


class SocketTransport(LineStreamTransport):
    """Frames over a connected stream socket, which now belongs to this transport."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
        output_stall: float | None = OUTPUT_STALL_SECONDS,
    ) -> None:
        super().__init__(
            max_message_bytes=max_message_bytes, max_queued_bytes=max_queued_bytes, output_stall=output_stall
        )
        self._socket = sock

    async def __aenter__(self) -> Self:
        both = await open_duplex(self._socket.detach(), InputAndOutput(self))
        self._attach(both, both)
        return self
