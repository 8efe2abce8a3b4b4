"""The part that all Python clients share, whatever library they use. Standard library only.

A client is called as `CLIENT SCENARIO COUNT -- AGENT…` and prints one JSON object. It counts only if each update was
handled: `play` fails otherwise. The clients in other languages do the same by themselves.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from benchmarks.usage import cpu_seconds, forget_peak, peak_bytes, resident_bytes

IN_FLIGHT = 64
SESSIONS = 100
SLOW_SECONDS = 1.5
VERSION = int(os.environ.get("BENCH_VERSION", "0")) or None
"""The protocol version of both ends; an agent that can choose supports both."""
IS_SAME = bool(os.environ.get("BENCH_SAME_FRAMES"))
"""A bare connection sends what the public API sends: ids of messages, and modes as config options."""
MAX_MESSAGE_BYTES = int(os.environ.get("BENCH_MAX_MESSAGE_BYTES", "0")) or None
"""The message limit to set in each library, where its default would be too low."""


@dataclass
class Seen:
    """Counts of the client's update handler."""

    updates: int = 0
    characters: int = 0
    is_busy: bool = False
    """Whether this is the scenario of a slow client: its handler awaits `time_found` first."""
    _busy_until: float = 0.0

    def count(self, content: str) -> None:
        """Count one handled chunk."""
        self.updates += 1
        self.characters += len(content)

    async def time_found(self) -> None:
        """Wait for a while after the first update; nothing is handled before."""
        now = time.monotonic()
        self._busy_until = self._busy_until or now + SLOW_SECONDS
        if self._busy_until > now:
            await asyncio.sleep(self._busy_until - now)


@dataclass
class Side:
    """A client of some library that is connected to an agent."""

    initialize: Callable[[], Awaitable[object]]
    new_session: Callable[[], Awaitable[str]]
    set_mode: Callable[[str], Awaitable[object]]
    prompt: Callable[[str, str], Awaitable[object]]
    agent_pid: int
    started: float
    """The time when the agent was started, by `time.perf_counter`."""
    seen: Seen


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a program, on uvloop's event loop where that is asked for."""
    if os.environ.get("BENCH_UVLOOP"):
        import uvloop  # type: ignore[import-not-found, unused-ignore]  # pyright: ignore[reportMissingImports]  # optional

        uvloop.run(main)  # pyright: ignore[reportUnknownMemberType]
    else:
        asyncio.run(main)


def arguments() -> tuple[str, int, list[str]]:
    """Return the scenario, the count and the agent's command."""
    scenario, count, _, *command = sys.argv[1:]
    return scenario, int(count), command


async def play(side: Side) -> None:
    """Run the scenario and print what it cost."""
    scenario, count, _ = arguments()
    await side.initialize()
    session = await side.new_session()
    first_session = time.perf_counter() - side.started
    forget_peak()
    memory = resident_bytes("self")
    client_cpu, agent_cpu = cpu_seconds("self"), cpu_seconds(side.agent_pid)
    began = time.perf_counter()
    await SCENARIOS[scenario](side, session, count)
    result = {
        "first_session": first_session,
        "seconds": time.perf_counter() - began,
        "client_cpu": cpu_seconds("self") - client_cpu,
        "agent_cpu": cpu_seconds(side.agent_pid) - agent_cpu,
        "client_growth": peak_bytes("self") - memory,
        "client_peak": peak_bytes("self"),
        "agent_peak": peak_bytes(side.agent_pid),
    }
    print(json.dumps(result), flush=True)


async def _spawn(side: Side, session: str, count: int) -> None:
    """Open one session and do nothing else."""


async def _stream(side: Side, session: str, count: int) -> None:
    await side.prompt(session, f"stream {count}")
    await _until_seen(side, count)


async def _sessions(side: Side, session: str, count: int) -> None:
    each = count // SESSIONS
    opened = await asyncio.gather(*(side.new_session() for _ in range(SESSIONS)))
    await asyncio.gather(*(side.prompt(one, f"stream {each}") for one in opened))
    await _until_seen(side, each * SESSIONS)


async def _slow(side: Side, session: str, count: int) -> None:
    side.seen.is_busy = True
    await side.prompt(session, f"flood {count}")
    await _until_seen(side, count)


async def _large(side: Side, session: str, count: int) -> None:
    await side.prompt(session, "echo " + "x" * (count - 5))
    await _until_seen(side, 1)
    assert side.seen.characters == count, side.seen


async def _sequential(side: Side, session: str, count: int) -> None:
    for _ in range(count):
        await side.set_mode(session)


async def _in_flight(side: Side, session: str, count: int) -> None:
    left = count

    async def ask() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await side.set_mode(session)

    await asyncio.gather(*(ask() for _ in range(IN_FLIGHT)))


async def _until_seen(side: Side, count: int) -> None:
    """Wait until all updates of the turn were handled, for libraries in which the response may overtake them."""
    async with asyncio.timeout(60):
        while side.seen.updates < count:  # noqa: ASYNC110  # the handler is what is measured: no event in it
            await asyncio.sleep(0.001)
    assert side.seen.updates == count, side.seen


SCENARIOS: dict[str, Callable[[Side, str, int], Awaitable[None]]] = {
    "spawn": _spawn,
    "stream": _stream,
    "sessions": _sessions,
    "slow": _slow,
    "large": _large,
    "sequential": _sequential,
    "in_flight": _in_flight,
}
