"""Our client and server pass Autobahn's cases, with the classes and settings that they have in use.

They echo each message, text as text and bytes as bytes, as the suite requires.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send
from websockets.frames import BINARY, CONT, Frame
from websockets.protocol import OPEN, Event

from duologue.transports.remote import websocket_connect as dialing
from duologue.transports.remote.url import RemoteEndpoint
from duologue.transports.remote.websocket_connect import WebSocketConnector
from duologue.transports.remote.websocket_connection import WebSocketConnection
from duologue.transports.server.app import ServerApp
from duologue.transports.server.auth import AccessControl
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import ServerAddress, serve
from tests.transports.autobahn.suite import AGENT, CASES, Suite, failures

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]  # the first test installs the suite

LONGEST_SECONDS = 200.0
KNOWN = {"7.1.5"}
"""Of the library `websockets` itself: a close in the middle of a message is answered as an error, not with its code."""


class Echo(ServerApp):
    """Our server without an agent; it echoes."""

    def __init__(self) -> None:
        limits = Limits()
        super().__init__(lambda caller: pytest.fail("no agent is started"), AccessControl(None, limits), limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await super().__call__(scope, receive, send)
            return
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            payload = {key: message[key] for key in ("text", "bytes") if message.get(key) is not None}
            await send({"type": "websocket.send", **payload})


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


@pytest.fixture(autouse=True)
def no_complaints() -> Iterator[None]:
    """Silence the web server, which logs every broken frame."""
    logger = logging.getLogger("uvicorn.error")
    logger.disabled = True
    yield
    logger.disabled = False


@pytest.mark.fault("WSK-01")
async def test_our_server_behaves_in_every_case(suite: Suite) -> None:
    async with asyncio.timeout(LONGEST_SECONDS), serve(Echo(), ServerAddress()) as port:
        servers = [{"agent": AGENT, "url": f"ws://127.0.0.1:{port}/acp"}]
        async with suite.running("fuzzingclient", {"servers": servers}) as process:
            assert await process.wait() == 0

    verdicts = suite.verdicts()
    assert len(verdicts) == CASES
    assert failures(verdicts) == KNOWN


class EchoInbox(WebSocketConnection):
    """Our client's WebSocket, which also receives binary messages, as the suite requires."""

    _bytes: bytearray | None = None

    def process_event(self, event: Event) -> None:
        super().process_event(event)
        if not isinstance(event, Frame):
            return
        if event.opcode is BINARY:
            self._bytes = bytearray(event.data)
        elif event.opcode is CONT and self._bytes is not None:
            self._bytes += event.data
        else:
            return
        if event.fin:
            message, self._bytes = bytes(self._bytes), None
            if self.protocol.state is OPEN:
                self.protocol.send_binary(message)
                self.send_data()


class Repeating:
    """Echo what it receives."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def on_messages(self, inbox: WebSocketConnection, frames: list[bytes]) -> None:
        self.received += frames
        for frame in frames:
            inbox.put(frame)

    def update_congestion(self) -> None:
        """Do nothing: it sends only what it received."""


async def run_case(url: str) -> list[bytes]:
    """Be there until the suite has seen enough; what it said."""
    dialer = WebSocketConnector(
        RemoteEndpoint.of(url), max_message_bytes=2**25, write_ahead=2**18, output_stall=None, ping_seconds=60.0
    )
    inbox = await dialer.connect()
    owner = Repeating()
    inbox.listener = owner
    inbox.deliver()
    await inbox.wait_closed()
    return owner.received


@pytest.mark.fault("WSK-01")
async def test_our_client_behaves_in_every_case(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialing, "WebSocketConnection", EchoInbox)
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    url = f"ws://127.0.0.1:{port}"
    async with asyncio.timeout(LONGEST_SECONDS), suite.running("fuzzingserver", {"url": url}):
        await listening(port)
        [count] = await run_case(f"{url}/getCaseCount")
        for number in range(1, int(count) + 1):
            await run_case(f"{url}/runCase?case={number}&agent={AGENT}")
        await run_case(f"{url}/updateReports?agent={AGENT}")

    verdicts = suite.verdicts()
    assert len(verdicts) == CASES
    assert failures(verdicts) == KNOWN


async def listening(port: int) -> None:
    """Wait until a server listens."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)  # a foreign process does not report that it listens
            continue
        writer.close()
        return
