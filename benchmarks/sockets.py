"""A minimal WebSocket client, to measure what many of them, or one that does not read, cost a server.

Blocking sockets and a few lines of RFC 6455: no library's own cost is in the figures. Standard library only.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self

from benchmarks.network import server
from benchmarks.usage import resident_bytes

WAIT_SECONDS = 60.0
STALL_MEGABYTES = 256
ROUND_TRIPS = 300
SETTLE_SECONDS = 1.0
MASK = b"\0\0\0\0"
"""A mask of zeros: valid, and changes nothing."""


class WebSocket:
    """One connection: JSON in text frames."""

    def __init__(self, url: str) -> None:
        host, _, port = url.split("/")[2].partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=WAIT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = [
            "GET /acp HTTP/1.1",
            f"Host: {host}:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Version: 13",
        ]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._unread = b""
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._more()
        head, _, self._unread = answer.partition(b"\r\n\r\n")
        if b" 101 " not in head:
            raise OSError(head.decode(errors="replace"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """Return the socket's descriptor, for a selector. Read it only after all responses were read."""
        return self._socket.fileno()

    def send(self, method: str, params: Mapping[str, Any], id: int) -> None:
        """Send a request."""
        body = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
        size = bytes([0x80 | len(body)]) if len(body) < 126 else b"\xfe" + len(body).to_bytes(2, "big")
        self._socket.sendall(b"\x81" + size + MASK + body)

    def ask(self, method: str, params: Mapping[str, Any], id: int) -> dict[str, Any]:
        """Send a request; return its response."""
        self.send(method, params, id)
        while True:
            message: dict[str, Any] = json.loads(self._frame() or b"{}")
            if message.get("id") == id:
                return message

    def _frame(self) -> bytes:
        """Return the next text; empty for a ping, which such a short connection need not answer."""
        kind, size = self._read(2)
        if size > 125:
            size = int.from_bytes(self._read(2 if size == 126 else 8), "big")
        body = self._read(size)
        return body if kind & 0xF == 1 else b""

    def _read(self, count: int) -> bytes:
        while len(self._unread) < count:
            self._unread += self._more()
        taken, self._unread = self._unread[:count], self._unread[count:]
        return taken

    def _more(self) -> bytes:
        data = self._socket.recv(65536)
        if not data:
            raise OSError("the server is gone")
        return data


def initialized(url: str) -> WebSocket:
    """Connect a client and initialize it."""
    made = WebSocket(url)
    made.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, 0)
    return made


def idle(command: Sequence[str], count: int) -> dict[str, float]:
    """Measure what this many idle connections cost a server."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with server(command) as (pid, url), ExitStack() as stack:
        for _ in range(50):  # warm up: what is created only once is created now
            stack.enter_context(initialized(url))
        before = resident_bytes(pid)
        for _ in range(count):
            stack.enter_context(initialized(url))
        time.sleep(SETTLE_SECONDS)
        return {"each": (resident_bytes(pid) - before) / count}


def stalled(command: Sequence[str]) -> dict[str, float]:
    """Measure what a client that does not read costs a server that sends much, and what it costs another client."""
    with server(command) as (pid, url), initialized(url) as good, initialized(url) as bad:
        session = good.ask("session/new", {"cwd": "/tmp", "mcpServers": []}, 1)["result"]["sessionId"]
        alone = _round_trip(good, session)
        flooded = bad.ask("session/new", {"cwd": "/tmp", "mcpServers": []}, 1)["result"]["sessionId"]
        before = resident_bytes(pid)
        text = f"flood {STALL_MEGABYTES * 500}"
        bad.send("session/prompt", {"sessionId": flooded, "prompt": [{"type": "text", "text": text}]}, 2)
        time.sleep(SETTLE_SECONDS)
        beside = _round_trip(good, session)
        return {"growth": resident_bytes(pid) - before, "alone": alone, "beside": beside, "ratio": beside / alone}


def _round_trip(client: WebSocket, session: str) -> float:
    """Return the median."""
    seconds: list[float] = []
    for number in range(ROUND_TRIPS):
        began = time.perf_counter()
        client.ask("session/set_mode", {"sessionId": session, "modeId": "ask"}, 100 + number)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def main() -> None:
    """Run as `python -m benchmarks.sockets (idle COUNT | stalled) -- AGENT…` with the agent's environment."""
    import sys

    what, *rest = sys.argv[1:]
    command = rest[rest.index("--") + 1 :]
    os.environ.setdefault("BENCH_WIRE", "ws")
    print(json.dumps(idle(command, int(rest[0])) if what == "idle" else stalled(command)), flush=True)


if __name__ == "__main__":
    main()
