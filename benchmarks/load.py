"""Load generator: many WebSockets that each receive updates at a steady rate, which is raised until the server is full.

`python -m benchmarks.load CONNECTIONS SECONDS RATE,RATE… -- SERVER…` prints one JSON object with a step for each rate;
the first that is saturated is the last. The generator is blocking sockets, a selector and a regular expression; its own
CPU is reported separately. Standard library only.
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
from typing import TypeAlias

from benchmarks.network import server
from benchmarks.sockets import WebSocket, initialized
from benchmarks.usage import cpu_seconds, resident_bytes

DUE = re.compile(rb'"text":"(\d+\.\d{6})"')
END = b'"stopReason"'
EXTRA_SECONDS = 10.0
"""How long updates may come after the last one was due."""
SATURATED_SECONDS = 1.0
"""A server is saturated if 1 of 100 updates comes later than this."""
WHOLE = 0.999
"""The share of the updates that must come."""

Figures: TypeAlias = dict[str, float]


def steps(command: Sequence[str], connections: int, seconds: float, rates: Sequence[float]) -> list[Figures]:
    """Prompt every connection to receive this many updates a second for so long, for each of the rates in turn."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    found: list[Figures] = []
    with server(command, is_gentle="serve" in command) as (pid, url), ExitStack() as stack:
        clients = [stack.enter_context(initialized(url)) for _ in range(connections)]
        opened = [client.ask("session/new", {"cwd": "/tmp", "mcpServers": []}, 1) for client in clients]
        sessions = [answer["result"]["sessionId"] for answer in opened]
        for number, rate in enumerate(rates):
            found.append(_step(clients, sessions, number + 2, rate, seconds, pid))
            if found[-1]["p99"] > SATURATED_SECONDS or found[-1]["share"] < WHOLE:
                break
    return found


def _step(
    clients: Sequence[WebSocket], sessions: Sequence[str], id: int, rate: float, seconds: float, pid: int
) -> Figures:
    children = _children(pid)
    used = [_cpu(pid), _cpu(*children), time.process_time()]
    began = time.monotonic()
    for client, session in zip(clients, sessions, strict=True):
        text = [{"type": "text", "text": f"tick {rate:g} {seconds:g}"}]
        client.send("session/prompt", {"sessionId": session, "prompt": text}, id)
    delays = _receive(clients, seconds)
    lasted = time.monotonic() - began
    if not delays:
        raise SystemExit("no update came")
    delays.sort()
    now = [_cpu(pid), _cpu(*children), time.process_time()]
    server_cpu, agent_cpu, own = ((after - before) / lasted for before, after in zip(used, now, strict=True))
    return {
        "server_cpu": server_cpu,
        "agent_cpu": agent_cpu,
        "generator_cpu": own,
        "memory": sum(map(resident_bytes, [pid, *children])),
        "p50": delays[len(delays) // 2],
        "p99": delays[int(len(delays) * 0.99)],
        "rate": len(delays) / lasted,
        "share": len(delays) / (len(clients) * int(rate * seconds)),
    }


def _receive(clients: Sequence[WebSocket], seconds: float) -> list[float]:
    """Read until every turn has ended; how late each update was."""
    delays: list[float] = []
    rest = {client.fileno(): b"" for client in clients}
    left = len(clients)
    deadline = time.monotonic() + seconds + EXTRA_SECONDS
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.fileno(), selectors.EVENT_READ)
        while left and time.monotonic() < deadline:
            for key, _ in selector.select(1.0):
                more = os.read(key.fd, 1 << 16)
                now = time.monotonic()
                data = rest[key.fd] + more
                rest[key.fd] = data[data.rfind(b"}") + 1 :]  # the beginning of a message
                delays += [now - float(due) for due in DUE.findall(data)]
                if END in data or not more:
                    left -= 1
                    selector.unregister(key.fd)
    return delays


def _cpu(*pids: int) -> float:
    return sum(map(cpu_seconds, pids))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (thread / "children").read_text().split())
    return found + [each for child in found for each in _children(child)]


if __name__ == "__main__":
    many, long, rates, _, *program = sys.argv[1:]
    os.environ.setdefault("BENCH_WIRE", "ws")
    found = steps(program, int(many), float(long), [float(rate) for rate in rates.split(",")])
    print(json.dumps({"steps": found}), flush=True)
