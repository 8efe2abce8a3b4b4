"""Our client and our server with a wire between them that is cut again and again, in the middle of everything."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Permissions, Turn, connect
from duologue.client.agent import RemoteAgent
from duologue.conversation.items import Message, ToolCall
from duologue.transports.remote.http import HttpTransport
from duologue.transports.remote.url import RemoteEndpoint
from duologue.transports.remote.websocket import WebSocketTransport
from duologue.transports.resume.protocol import RetryPolicy
from duologue.transports.server.app import ServerApp
from duologue.transports.server.auth import AccessControl
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import ServerAddress, serve
from duologue.transports.server.tokens import single_token
from tests.transports.wsserver import CuttingProxy

KINDS = [WebSocketTransport, HttpTransport]

SECONDS = 60.0
TOKEN = "token-of-the-tests"
QUICK = RetryPolicy(first=0.005, longest=0.05, limit=SECONDS)


def chatty(pieces: int) -> Agent[Any]:
    """Send much text, use tools and request permission for each of them."""
    agent = Agent[Any]("chatty")

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> None:
        for number in range(pieces):
            await turn.say(f"{number} ")
            if number % 100 == 50:
                async with turn.tool(f"Tool {number}", kind="edit") as tool:
                    allowed = await tool.request_permission()
                    await turn.say("yes " if allowed else "no ")
            if number % 10 == 0:
                await asyncio.sleep(0)

    return agent


@asynccontextmanager
async def through_a_proxy(
    agent: Agent[Any], kind: type[WebSocketTransport | HttpTransport], after_bytes: Callable[[], int] | None = None
) -> AsyncGenerator[tuple[CuttingProxy, WebSocketTransport | HttpTransport]]:
    """Run a server behind a proxy that can be cut, and yield a transport through it."""
    async with AsyncExitStack() as stack, CuttingProxy().running() as proxy:
        access_control = AccessControl(single_token(TOKEN), Limits(), hosts=[f"127.0.0.1:{proxy.port}"])
        app = ServerApp(lambda _: agent, access_control, Limits())
        proxy.server_port = await stack.enter_async_context(serve(app, ServerAddress(), drain_seconds=0.0))
        proxy.after_bytes = after_bytes
        yield proxy, kind(RemoteEndpoint.of(f"http://127.0.0.1:{proxy.port}", token=TOKEN), retry=QUICK)


async def turn_items(agent: RemoteAgent, cwd: Path) -> list[str]:
    """Return the texts and tools of one turn, in order."""
    async with agent.new_session(cwd) as session:
        await session.prompt("talk")
        return [
            f"{item.role}: {item.text}" if isinstance(item, Message) else f"{item.title}: {item.status}"
            for item in session.transcript.items
            if isinstance(item, Message | ToolCall)
        ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.fault("REC-08", "REC-02", "REC-04", "REC-05", "REC-06")
async def test_a_turn_that_is_cut_again_and_again_is_the_same_as_one_that_is_not(
    kind: type[WebSocketTransport | HttpTransport], tmp_path: Path, chaos_factor: int, record_property: Any
) -> None:
    cuts = 10 * chaos_factor
    record_property("count", cuts)
    pieces = 60 * cuts
    chance = random.Random(5)
    async with asyncio.timeout(SECONDS * chaos_factor):
        async with through_a_proxy(chatty(pieces), kind) as (_, transport):
            async with connect(transport, permissions=Permissions(edit="allow")) as agent:
                uncut = await turn_items(agent, tmp_path)
        async with through_a_proxy(chatty(pieces), kind, lambda: chance.randrange(2000, 15_000)) as (proxy, transport):
            async with connect(transport, permissions=Permissions(edit="allow")) as agent:
                assert await turn_items(agent, tmp_path) == uncut
            assert proxy.cuts >= cuts
    assert uncut[0] == "user: talk"
    assert len(uncut) > 2 * (pieces // 100)
    assert sum(len(item.split()) for item in uncut) > pieces
