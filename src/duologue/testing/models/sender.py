"""Send the parts of an answer by ASGI, with an end to every wait for a client that does not read."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.types import Message, Send

from duologue.testing.models.control import AnswerEnded
from duologue.testing.models.faults import Provider, ProviderError


class Sender:
    """Sends one answer.

    Args:
        send: Sends messages of ASGI.
        provider: The provider whose form errors have.
        request_id: The id of the request in headers and errors.
        stall_seconds: Longest time for a client to read what is sent.
    """

    def __init__(self, send: Send, provider: Provider, request_id: str, stall_seconds: float) -> None:
        self._asgi_send = send
        self._provider: Provider = provider
        self.request_id = request_id
        self._stall_seconds = stall_seconds

    async def start(self, status: int, content_type: str, headers: dict[str, str] | None = None) -> None:
        """Send the status and the headers."""
        all_headers = {
            "content-type": content_type,
            "cache-control": "no-store",
            "request-id": self.request_id,
            "x-request-id": self.request_id,
            **(headers or {}),
        }
        encoded = [(name.encode(), value.encode()) for name, value in all_headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    async def write(self, data: bytes) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """End the body."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def send_whole(
        self, status: int, content_type: str, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        """Send an answer whose length is known."""
        await self.start(status, content_type, {"content-length": str(len(body)), **(headers or {})})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def send_json(self, value: object) -> None:
        """Send a value as JSON."""
        await self.send_whole(200, "application/json", msgspec.json.encode(value))

    async def send_error(self, error: ProviderError, headers: dict[str, str] | None = None) -> None:
        """Send an error of the provider."""
        body = msgspec.json.encode(error.body(self._provider, self.request_id))
        await self.send_whole(error.status, "application/json", body, headers)

    async def _send(self, message: Message) -> None:
        try:
            async with asyncio.timeout(self._stall_seconds):
                await self._asgi_send(message)
        except TimeoutError:
            raise AnswerEnded(f"the client read nothing for {self._stall_seconds:g} s") from None
