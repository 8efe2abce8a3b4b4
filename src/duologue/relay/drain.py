"""Gives a client that closes its end the answers it still waits for: `printf … | duologue connect` reads them all."""

from __future__ import annotations

import asyncio
from typing import Self

from duologue.jsonrpc.codec import serialize_notification
from duologue.jsonrpc.envelope import Envelope, PendingRequests, read_envelope
from duologue.transports.base import Servable, Transport

__all__ = ["DRAIN_SECONDS", "DrainingRelay"]

DRAIN_SECONDS = 10.0
"""An agent on a busy machine may take some seconds to start, and only then answers the first request."""


class DrainingRelay:
    """Serves another servable, and lets each client have its answers before that hears of the client's end.

    Args:
        servable: What is served.
        seconds: How long answers are waited for.
    """

    def __init__(self, servable: Servable, seconds: float = DRAIN_SECONDS) -> None:
        self._servable = servable
        self._seconds = seconds

    async def serve(self, transport: Transport) -> None:
        """Serve one client."""
        await self._servable.serve(_DrainedTransport(transport, self._seconds))


class _DrainedTransport(Transport):
    """A transport whose end is received late: after a cancel for each running prompt, and after all answers."""

    def __init__(self, transport: Transport, seconds: float) -> None:
        self._transport = transport
        self._seconds = seconds
        self._unanswered: PendingRequests[Envelope] = PendingRequests()
        self._answered = asyncio.Event()
        self._deadline: float | None = None

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    @property
    def pending_bytes(self) -> int:
        return self._transport.pending_bytes

    async def receive(self) -> list[bytes]:
        if self._deadline is None:
            frames = await self._transport.receive()
            for frame in frames:
                shape = read_envelope(frame)
                if shape is not None and (id := shape.request_id) is not None:
                    self._unanswered.add(id, shape)
            if frames:
                return frames
            self._deadline = asyncio.get_running_loop().time() + self._seconds
            if cancels := self._cancels():
                return cancels
        try:
            async with asyncio.timeout_at(self._deadline):
                while len(self._unanswered):
                    self._answered.clear()
                    await self._answered.wait()
        except TimeoutError:
            pass
        return []

    def _cancels(self) -> list[bytes]:
        """End running prompts as when a client leaves: they may run for hours."""
        prompts = [shape for shape in self._unanswered.values() if shape.method == "session/prompt"]
        sessions = dict.fromkeys(shape.session for shape in prompts if shape.session is not None)
        return [serialize_notification("session/cancel", {"sessionId": session}) for session in sessions]

    def send(self, frame: bytes) -> None:
        self._transport.send(frame)
        self.is_congested = self._transport.is_congested
        shape = read_envelope(frame) if b'"id"' in frame else None
        if shape is not None and (id := shape.response_id) is not None:
            self._unanswered.answered(id)
            self._answered.set()

    async def drain(self) -> None:
        await self._transport.drain()
        self.is_congested = self._transport.is_congested

    async def aclose(self) -> None:
        await self._transport.aclose()
