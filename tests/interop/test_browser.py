"""A web page in a real browser uses an agent behind `duologue serve`, with the subprotocols that such clients offer.

A browser can set no headers on a WebSocket. Clients such as acp-ui offer the token as a subprotocol instead, and the
browser ends a connection whose server selects none of those that were offered.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.cli.program import PROGRAM
from tests.cli.test_serve import served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(120),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]

SECONDS = 50.0
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
PAGE = """<!doctype html><title>client</title><script>
const URL = %(url)s, OFFERS = %(offers)s;
function use(offer) {
  return new Promise(resolve => {
    const socket = new WebSocket(URL, offer);
    let text = "";
    const send = (id, method, params) => socket.send(JSON.stringify({jsonrpc: "2.0", id, method, params}));
    socket.onopen = () => send(0, "initialize", {protocolVersion: 1, clientCapabilities: {}});
    socket.onclose = event => resolve({closed: event.code});
    socket.onmessage = event => {
      const message = JSON.parse(event.data);
      if (message.id === 0) send(1, "session/new", {cwd: "/", mcpServers: []});
      else if (message.id === 1) {
        const prompt = [{type: "text", text: "/echo from a page"}];
        send(2, "session/prompt", {sessionId: message.result.sessionId, prompt});
      } else if (message.id === 2) {
        resolve({protocol: socket.protocol, stop: message.result.stopReason, text});
        socket.close();
      } else if (message.method === "session/update") {
        const content = message.params.update.content;
        text += content && content.text || "";
      }
    };
  });
}
(async () => {
  const results = [];
  for (const offer of OFFERS) results.push(await use(offer));
  await fetch("/results", {method: "POST", body: JSON.stringify(results)});
})();
</script>
"""


class RunningServer:
    """The page of a client, and what it reports."""

    def __init__(self) -> None:
        self.page = b""
        self.results: asyncio.Future[list[dict[str, Any]]] = asyncio.get_running_loop().create_future()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        if head.startswith("post /results"):
            length = int(head.partition("content-length:")[2].split()[0])
            self.results.set_result(json.loads(await reader.readexactly(length)))
        body = self.page if head.startswith("get / ") else b""
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def browser(folder: Path, address: str) -> AsyncGenerator[None]:
    """Chromium with this page open."""
    assert CHROMIUM is not None
    profile = f"--user-data-dir={mkdtemp(prefix='profile', dir=folder)}"
    command = [CHROMIUM, *FLAGS, profile, "--remote-debugging-port=0", address]
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)
    try:
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def results_of(tmp_path: Path, host: str, offers: list[list[str]]) -> list[dict[str, Any]]:
    """Return the result of a page at this host with each of these offers; only `localhost` is accepted."""
    running_server = RunningServer()
    async with asyncio.timeout(SECONDS), await asyncio.start_server(running_server.answer, "127.0.0.1", 0) as pages:
        port = pages.sockets[0].getsockname()[1]
        allowed = ["--allow-origin", f"http://localhost:{port}"]
        async with served(tmp_path, *allowed, "--", *PROGRAM, "agent", DUOLOGUE_TOKEN="right") as server:
            page = PAGE % {"url": json.dumps(server.url), "offers": json.dumps(offers)}
            running_server.page = page.encode()
            async with browser(tmp_path, f"http://{host}:{port}/"):
                return await running_server.results


@pytest.mark.fault("WSK-14")
async def test_a_page_uses_an_agent_with_each_spelling_of_token_and_protocol(tmp_path: Path) -> None:
    offers = [
        ["acp.v1", "bearer.right"],
        ["bearer.right", "acp.v1"],
        ["acp", "duologue.token.right"],
        ["acp.v2", "acp.v1", "bearer.right"],
        ["bearer.right"],
    ]
    results = await results_of(tmp_path, "localhost", offers)

    assert [result["protocol"] for result in results] == ["acp.v1", "acp.v1", "acp", "acp.v2", "bearer.right"]
    for result in results:
        assert result["stop"] == "end_turn"
        assert "You said: from a page" in result["text"]


@pytest.mark.fault("WSK-14", "HTT-02")
async def test_a_page_with_a_wrong_token_and_a_page_from_elsewhere_are_refused(tmp_path: Path) -> None:
    wrong = [["acp.v1", "bearer.wrong"], ["acp.v1"], ["acp.v1", "bearer.right", "bearer.right2"]]
    right = [["acp.v1", "bearer.right"]]

    assert await results_of(tmp_path, "localhost", wrong) == [{"closed": 1006}] * 3
    assert await results_of(tmp_path, "127.0.0.1", right) == [{"closed": 1006}]
