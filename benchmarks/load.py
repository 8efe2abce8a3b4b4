"""Load generator: many WebSockets that each receive updates at a steady rate.

`python -m benchmarks.load CONNECTIONS RATE SECONDS -- SERVER...` prints one JSON object. The generator is blocking
sockets, a selector and a regular expression; its own CPU is reported separately. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import resource
import selectors
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.network import server
from benchmarks.sockets import WebSocket, initialized
from benchmarks.usage import cpu_seconds, resident_bytes

DUE = re.compile(rb'"text":"(\d+\.\d{6})"')
END = b'"stopReason"'
EXTRA_SECONDS = 20.0
"""How long updates may come after the last one was due."""


def steady(command: Sequence[str], connections: int, rate: float, seconds: float) -> dict[str, float]:
    """Prompt every connection to receive `rate` updates a second for so long."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with server(command, is_gentle="serve" in command) as (pid, url), ExitStack() as stack:
        clients = [stack.enter_context(initialized(url)) for _ in range(connections)]
        prompts: list[dict[str, object]] = []
        for client in clients:
            opened = client.ask("session/new", {"cwd": "/tmp", "mcpServers": []}, 1)
            text = [{"type": "text", "text": f"tick {rate:g} {seconds:g}"}]
            prompts.append({"sessionId": opened["result"]["sessionId"], "prompt": text})
        pids = [pid, *_children(pid)]
        before, own = sum(map(cpu_seconds, pids)), time.process_time()
        began = time.monotonic()
        for client, prompt in zip(clients, prompts, strict=True):
            client.send("session/prompt", prompt, 2)
        delays = _receive(clients, seconds)
        lasted = time.monotonic() - began
        if not delays:
            raise SystemExit("no update came")
        delays.sort()
        return {
            "cpu": (sum(map(cpu_seconds, pids)) - before) / lasted,
            "generator_cpu": (time.process_time() - own) / lasted,
            "memory": sum(map(resident_bytes, pids)),
            "p50": delays[len(delays) // 2],
            "p99": delays[int(len(delays) * 0.99)],
            "rate": len(delays) / lasted,
            "share": len(delays) / (connections * int(rate * seconds)),
        }


def _receive(clients: Sequence[WebSocket], seconds: float) -> list[float]:
    """Read until every turn has ended; how late each update was."""
    delays: list[float] = []
    left = len(clients)
    deadline = time.monotonic() + seconds + EXTRA_SECONDS
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.fileno(), selectors.EVENT_READ)
        while left and time.monotonic() < deadline:
            for key, _ in selector.select(1.0):
                data = os.read(key.fd, 1 << 16)
                now = time.monotonic()
                delays += [now - float(due) for due in DUE.findall(data)]
                if END in data or not data:
                    left -= 1
                    selector.unregister(key.fd)
    return delays


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (thread / "children").read_text().split())
    return found + [each for child in found for each in _children(child)]


if __name__ == "__main__":
    many, often, long, _, *program = sys.argv[1:]
    os.environ.setdefault("BENCH_WIRE", "ws")
    print(json.dumps(steady(program, int(many), float(often), float(long))), flush=True)
