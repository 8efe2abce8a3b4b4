"""An agent and a client of the public API in this process, whose calls can be attributed to either side.

Each side runs in a context of its own, which its tasks and the callbacks of its pipes inherit: `SIDE` says whose call a
call is. What the event loop itself does belongs to neither.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from typing import Self

from benchmarks.wire import CHUNK_TEXTS
from duologue import Agent, Permissions, Settings, Turn, choice, connect
from duologue.client.session import ClientSession
from duologue.conversation.session_setup import Implementation
from duologue.transports.base import Transport
from duologue.transports.memory import memory_pair
from duologue.transports.stdio.fd_streams import open_reader, open_writer
from duologue.transports.stdio.line_stream import LineStreamTransport

AGENT, CLIENT, LOOP = "agent", "client", "loop"
SIDES = (AGENT, CLIENT, LOOP)
SIDE: ContextVar[str] = ContextVar("SIDE", default=LOOP)
WIRES = ("memory", "pipe")
IN_FLIGHT = 64
LONGEST_SECONDS = 60

Action = Callable[[ClientSession, int], Awaitable[None]]
"""Does something this many times."""


class Modes(Settings):
    mode = choice("ask", "write", category="mode")


class PipeTransport(LineStreamTransport):
    """Frames on two pipes of this process, as an agent's process has them."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        super().__init__()
        self._fds = read_fd, write_fd

    async def __aenter__(self) -> Self:
        reader = await open_reader(self._fds[0], self._input)
        self._attach(reader, await open_writer(self._fds[1], self._output))
        return self


def transports(wire: str) -> tuple[Transport, Transport]:
    """Make the client's and the agent's end of a connection."""
    if wire == "memory":
        return memory_pair()
    (agent_in, client_out), (client_in, agent_out) = os.pipe(), os.pipe()
    return PipeTransport(client_in, client_out), PipeTransport(agent_in, agent_out)


def make_agent() -> Agent[Modes]:
    """Make the agent of the benchmark: `stream COUNT`, `permission COUNT`, or a turn without any update."""
    agent = Agent("benchmark", settings=Modes)

    @agent.on_prompt
    async def answer(turn: Turn[Modes]) -> None:
        word, _, argument = turn.text.partition(" ")
        for number in range(int(argument or "0")):
            if word == "stream":
                await turn.say(CHUNK_TEXTS[number % len(CHUNK_TEXTS)])
            else:
                async with turn.tool("Write a file", kind="edit") as tool:
                    await tool.request_permission()

    return agent


def open_pair(wire: str) -> AbstractAsyncContextManager[ClientSession]:
    """Connect a client to the agent of the benchmark and open a session."""
    return connected(make_agent(), wire)


@asynccontextmanager
async def connected(agent: Agent[Modes], wire: str) -> AsyncGenerator[ClientSession]:
    """Connect a client to an agent and open a session."""
    near, far = transports(wire)
    async with asyncio.timeout(LONGEST_SECONDS):
        SIDE.set(AGENT)
        serving = asyncio.create_task(agent.serve(far))
        SIDE.set(CLIENT)
        info, policy = Implementation("benchmark", "1"), Permissions.allow_everything()
        async with connect(near, client_info=info, permissions=policy) as remote:
            yield await remote.new_session("/tmp")
        await serving
        SIDE.set(LOOP)


async def updates(session: ClientSession, count: int) -> None:
    """Run one turn with this many chunks of text."""
    seen = 0
    async with session.prompt(f"stream {count}") as turn:
        async for _ in turn:
            seen += 1
    assert seen >= count, f"{seen} updates instead of {count}"


async def prompts(session: ClientSession, count: int) -> None:
    """Run this many turns without any update, one after the other."""
    for _ in range(count):
        await session.prompt("nothing")


async def permissions(session: ClientSession, count: int) -> None:
    """Run one turn with this many tool calls that request permission."""
    await session.prompt(f"permission {count}")


async def round_trips(session: ClientSession, count: int) -> None:
    """Send this many small requests, one after the other."""
    for _ in range(count):
        await session.set_mode("ask")


async def requests(session: ClientSession, count: int) -> None:
    """Send this many small requests, 64 at a time."""
    for _ in range(count // IN_FLIGHT):
        await asyncio.gather(*(session.set_mode("ask") for _ in range(IN_FLIGHT)))


ACTIONS: dict[str, Action] = {
    "update": updates,
    "request": requests,
    "round trip": round_trips,
    "prompt": prompts,
    "permission": permissions,
}
