"""A server over HTTP that a test controls down to the bytes of each event stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.types import Receive, Scope, Send

from duologue.mcp.tool_server.http import serve_on_loopback
from duologue.transports.remote.url import RemoteEndpoint

Json: TypeAlias = dict[str, Any]

END: None = None
"""In place of bytes: the server ends the stream."""


@dataclass
class ReceivedRequest:
    """One request."""

    method: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Json:
        message: Json = json.loads(self.body)
        return message

    @property
    def session(self) -> str | None:
        return self.headers.get("acp-session-id")


Answer: TypeAlias = tuple[int, dict[str, str], bytes]


@dataclass
class Fake:
    """Answer `initialize`, accept all other posts, and stream what a test puts into the queues.

    Attributes:
        terms: The grant for resuming; `None` for a server without it.
        asked: Every request, in the order it came.
        left: The session of each stream that its reader left before the end.
        on_post, on_get: May answer in its place.
    """

    grant: Json | None = None
    headers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    requests: list[ReceivedRequest] = field(default_factory=list[ReceivedRequest])
    left: list[str | None] = field(default_factory=list[str | None])
    on_post: Callable[[ReceivedRequest], Answer | None] = lambda request: None
    on_get: Callable[[ReceivedRequest], Answer | None] = lambda request: None
    queues: dict[str | None, asyncio.Queue[bytes | None]] = field(
        default_factory=dict[str | None, asyncio.Queue[bytes | None]]
    )

    def stream(self, session: str | None = None) -> asyncio.Queue[bytes | None]:
        """Queue a message for the stream of the connection, or of a session."""
        return self.queues.setdefault(session, asyncio.Queue())

    def send_event(
        self, message: Json, session: str | None = None, number: int | None = None, **fields: object
    ) -> None:
        """Put one event into a stream."""
        named = {**({} if number is None else {"id": number}), **fields}
        head = "".join(f"{name}: {value}\n" for name, value in named.items())
        self.stream(session).put_nowait(f"{head}data: {json.dumps(message)}\n\n".encode())

    def posts(self) -> list[ReceivedRequest]:
        """Return the messages posted after `initialize`."""
        return [each for each in self.requests if each.method == "POST"][1:]

    def gets(self, session: str | None = None) -> list[ReceivedRequest]:
        """Return how often a stream was requested."""
        return [each for each in self.requests if each.method == "GET" and each.session == session]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        request = ReceivedRequest(scope["method"], headers, await _body(receive))
        self.requests.append(request)
        if request.method == "GET":
            given = self.on_get(request)
            if given is None:
                await self._stream(request, receive, send)
                return
        else:
            given = self.on_post(request) if request.method == "POST" else None
        await self._answer(send, given or self._usual(request))

    def _usual(self, request: ReceivedRequest) -> Answer:
        if request.method == "POST" and request.message.get("method") == "initialize":
            result: Json = {"protocolVersion": 1}
            if self.grant is not None:
                result["_meta"] = {"duologue/resume": self.grant}
            body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result}).encode()
            return 200, {"content-type": "application/json", "acp-connection-id": "c-1"}, body
        return 202, {}, b""

    async def _answer(self, send: Send, answer: Answer) -> None:
        status, headers, body = answer
        pairs = [(name.encode(), value.encode()) for name, value in [*headers.items(), *self.headers]]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": body})

    async def _stream(self, request: ReceivedRequest, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
        leaving = asyncio.create_task(_disconnected(receive))
        sending = asyncio.create_task(self._send_events(self.stream(request.session), send))
        await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            self.left.append(request.session)
        for task in (leaving, sending):
            task.cancel()
        await asyncio.gather(leaving, sending, return_exceptions=True)

    async def _send_events(self, queue: asyncio.Queue[bytes | None], send: Send) -> None:
        while (data := await queue.get()) is not END:
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)


@asynccontextmanager
async def serving(fake: Fake) -> AsyncGenerator[RemoteEndpoint]:
    """Run the server and yield its endpoint; its streams end with it."""
    async with serve_on_loopback(fake) as base:
        try:
            yield RemoteEndpoint.of(f"{base}/acp")
        finally:
            for queue in fake.queues.values():
                queue.put_nowait(END)
