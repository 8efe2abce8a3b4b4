"""A real server on loopback with whatever behind it, and raw clients that know nothing of ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx2
from websockets.asyncio.client import ClientConnection, connect

from duologue.transports.base import Servable, Transport
from duologue.transports.server.app import ServerApp
from duologue.transports.server.auth import AccessControl
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import ServerAddress, serve
from duologue.transports.server.tokens import Authenticate, single_token

Json: TypeAlias = dict[str, Any]

TOKEN = "the-token-of-the-tests"
RESUME_REQUEST = {"duologue/resume": {"version": 1}}
SECONDS = 60.0


@dataclass
class RunningServer:
    """A server that runs."""

    app: ServerApp
    port: int

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}/acp"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}/acp"

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def running_server(
    servable: Servable | Callable[[str], Servable],
    limits: Limits | None = None,
    authenticate: Authenticate | None = None,
    *,
    drain_seconds: float = 0.0,
    seconds: float = 60.0,
    **access: Any,
) -> AsyncGenerator[RunningServer]:
    """Serve this to clients that have the token."""
    limits = limits or Limits()
    if "is_open" in access:
        access_control = AccessControl(None, limits)
    else:
        access_control = AccessControl(authenticate or single_token(TOKEN), limits, **access)
    app = ServerApp(servable if callable(servable) else lambda _: servable, access_control, limits)
    async with asyncio.timeout(seconds), serve(app, ServerAddress(), drain_seconds=drain_seconds) as port:
        yield RunningServer(app, port)


def bearer(token: str = TOKEN) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def socket_to(server: RunningServer, token: str = TOKEN, **options: Any) -> AsyncGenerator[Socket]:
    """Open a WebSocket to the server."""
    options = {"additional_headers": bearer(token), "compression": None, "max_size": None, "proxy": None, **options}
    async with connect(options.pop("uri", server.ws), **options) as connection:
        yield Socket(connection)


class Socket:
    """A client that writes its own JSON."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.control: list[Json] = []
        """The control messages of the server."""

    @property
    def id(self) -> str:
        """The connection's, as the upgrade said it."""
        assert self.connection.response is not None
        return self.connection.response.headers["Acp-Connection-Id"]

    async def send(self, message: Json | str) -> None:
        await self.connection.send(message if isinstance(message, str) else json.dumps(message))

    async def next(self) -> Json:
        """Return the next message of the agent."""
        async with asyncio.timeout(SECONDS):
            while True:
                message: Json = json.loads(await self.connection.recv())
                if not str(message.get("method", "")).startswith("_duologue/received"):
                    return message
                self.control.append(message)

    async def ask(self, id: int | str, method: str, params: Json) -> Json:
        """Send a request and return its response; messages before it are dropped."""
        await self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        while (answer := await self.next()).get("id") != id or "method" in answer:
            pass
        return answer

    async def initialize(self, meta: Json | None = None) -> Json:
        params: Json = {"protocolVersion": 1, "clientCapabilities": {}}
        answer = await self.ask(0, "initialize", params if meta is None else {**params, "_meta": meta})
        result: Json = answer["result"]
        return result

    async def closed(self) -> int:
        """Wait for the close frame; return its code."""
        async with asyncio.timeout(SECONDS):
            await self.connection.wait_closed()
        return self.connection.close_code or 0

    def cut(self) -> None:
        """Drop the TCP connection."""
        self.connection.transport.abort()


class Echo:
    """Not an agent: answers each request with its parameters, and keeps every frame it was sent."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.transports: list[Transport] = []
        self.ended = asyncio.Event()

    async def serve(self, transport: Transport) -> None:
        self.transports.append(transport)
        async with transport:
            while frames := await transport.receive():
                for frame in frames:
                    self.frames.append(frame)
                    self.answer(transport, json.loads(frame))
        self.ended.set()

    def answer(self, transport: Transport, message: Json) -> None:
        if "method" in message and "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": message.get("params", {})}
            transport.send(json.dumps(answer).encode())


class Counting(Echo):
    """Tells numbers, as many as the request asks for, before it answers."""

    def answer(self, transport: Transport, message: Json) -> None:
        if message.get("method") == "count":
            for number in range(message["params"]["to"]):
                transport.send(b'{"jsonrpc":"2.0","method":"number","params":{"n":%d}}' % number)
        super().answer(transport, message)


class RawHttpClient:
    """A client over HTTP that writes its own requests."""

    def __init__(self, client: httpx2.AsyncClient, server: RunningServer) -> None:
        self.client = client
        self.url = server.http
        self.id = ""

    async def post(self, message: Json | bytes | str, session: str | None = None, **headers: str) -> httpx2.Response:
        """Post one message on our connection."""
        content = json.dumps(message) if isinstance(message, dict) else message
        named = {"Acp-Connection-Id": self.id} if self.id else {}
        if session is not None:
            named["Acp-Session-Id"] = session
        named = {"Content-Type": "application/json", **named, **{n.replace("_", "-"): v for n, v in headers.items()}}
        return await self.client.post(self.url, content=content, headers=named)

    async def initialize(self, meta: Json | None = None) -> Json:
        params: Json = {"protocolVersion": 1, "clientCapabilities": {}}
        if meta is not None:
            params["_meta"] = meta
        response = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert response.status_code == 200, response.text
        self.id = response.headers["Acp-Connection-Id"]
        result: Json = response.json()["result"]
        return result

    @asynccontextmanager
    async def listen(self, session: str | None = None, last: int | str | None = None) -> AsyncGenerator[Events]:
        """Open the event stream of the connection, or of a session."""
        headers = {"Accept": "text/event-stream", "Acp-Connection-Id": self.id}
        if session is not None:
            headers["Acp-Session-Id"] = session
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        async with self.client.stream("GET", self.url, headers=headers) as response:
            yield Events(response)

    async def delete(self) -> int:
        response = await self.client.delete(self.url, headers={"Acp-Connection-Id": self.id})
        return response.status_code


class Events:
    """One event stream."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.response = response
        self.last = 0
        self.after: int | None = None
        """The event of another stream that the last one came behind."""
        self._lines = response.aiter_lines()

    async def next(self) -> Json:
        """Return the next message."""
        message: Json = {}
        self.after = None
        async with asyncio.timeout(SECONDS):
            async for line in self._lines:
                if line.startswith("id: "):
                    self.last = int(line[4:])
                elif line.startswith("after: "):
                    self.after = int(line[7:])
                elif line.startswith("data: "):
                    message = json.loads(line[6:])
                elif not line and message:
                    return message
        raise EOFError

    async def ended(self) -> bool:
        """Return whether the stream ends without a further event."""
        try:
            await self.next()
        except EOFError:
            return True
        return False


@asynccontextmanager
async def http_client_to(
    server: RunningServer, token: str | None = TOKEN, **headers: str
) -> AsyncGenerator[RawHttpClient]:
    """Open a client over HTTP."""
    named = {**(bearer(token) if token is not None else {}), **headers}
    async with httpx2.AsyncClient(headers=named, trust_env=False, timeout=SECONDS) as client:
        yield RawHttpClient(client, server)


async def raw(server: RunningServer, request: bytes) -> bytes:
    """Send these bytes; return what the server sends until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    async with asyncio.timeout(SECONDS):
        writer.write(request)
        try:
            return await reader.read()
        except ConnectionResetError:  # it did not read all of it
            return b""
        finally:
            writer.close()
