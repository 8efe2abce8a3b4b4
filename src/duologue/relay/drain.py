"""Answer the open requests of a client that has closed its input: `printf … | duologue connect` gets all responses."""

from __future__ import annotations

import asyncio

from duologue.jsonrpc.codec import serialize_notification
from duologue.jsonrpc.envelope import Envelope, PendingRequests, read_envelope
from duologue.transports.base import Servable, Transport, WrappedTransport

DRAIN_SECONDS = 10.0
"""An agent on a busy machine may need some seconds to start before it answers the first request."""


class DrainingRelay:
    """Serve another servable, which sees the end of a client only after that has its responses.

    Args:
        servable: The agent or relay to serve.
        seconds: How long to wait for responses.
    """

    def __init__(self, servable: Servable, seconds: float = DRAIN_SECONDS) -> None:
        self._servable = servable
        self._seconds = seconds

    async def serve(self, transport: Transport) -> None:
        """Serve one client."""
        await self._servable.serve(_DrainedTransport(transport, self._seconds))


class _DrainedTransport(WrappedTransport):
    """Delay the end of a transport until running prompts were cancelled and all requests answered."""

    def __init__(self, transport: Transport, seconds: float) -> None:
        super().__init__(transport)
        self._seconds = seconds
        self._unanswered: PendingRequests[Envelope] = PendingRequests()
        self._answered = asyncio.Event()
        self._deadline: float | None = None

    async def receive(self) -> list[bytes]:
        if self._deadline is None:
            frames = await self._inner.receive()
            for frame in frames:
                envelope = read_envelope(frame)
                if envelope is not None and (id := envelope.request_id) is not None:
                    self._unanswered.add(id, envelope)
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
        """Cancel running prompts as when a client leaves: they may run for hours."""
        prompts = [envelope for envelope in self._unanswered.values() if envelope.method == "session/prompt"]
        sessions = dict.fromkeys(envelope.session for envelope in prompts if envelope.session is not None)
        return [serialize_notification("session/cancel", {"sessionId": session}) for session in sessions]

    def send(self, frame: bytes) -> None:
        self._inner.send(frame)
        envelope = read_envelope(frame) if b'"id"' in frame else None
        if envelope is not None and (id := envelope.response_id) is not None:
            self._unanswered.answered(id)
            self._answered.set()
