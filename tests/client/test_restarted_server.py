"""A restarted server: running turns fail with an error, stored sessions continue."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn, connect
from duologue.errors import ResumeFailed
from duologue.transports.server.app import ServerApp
from duologue.transports.server.auth import AccessControl
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import ServerAddress, serve
from duologue.transports.server.tokens import single_token

TOKEN = "token-of-the-tests"


def persistent_app(folder: Path) -> ServerApp:
    """Serve an agent that stores its sessions."""
    agent = Agent[Any]("keeper")
    agent.persist_sessions(folder)

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> None:
        await turn.say(f"received {turn.text}")
        if turn.text == "wait":
            await asyncio.Event().wait()

    return ServerApp(lambda _: agent, AccessControl(single_token(TOKEN), Limits()), Limits())


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_server_that_is_started_anew_is_not_mistaken_for_the_old_one(scheme: str, tmp_path: Path) -> None:
    async with asyncio.timeout(60), AsyncExitStack() as first:
        port = await first.enter_async_context(serve(persistent_app(tmp_path / "kept"), ServerAddress()))
        async with connect(f"{scheme}://127.0.0.1:{port}", token=TOKEN) as agent:
            session = await agent.new_session(tmp_path)
            async with session.prompt("wait") as turn:
                await anext(aiter(turn))
                await first.aclose()  # a clean shutdown cancels running turns and answers them
                await turn
            assert turn.stop_reason == "cancelled"
            async with serve(persistent_app(tmp_path / "kept"), ServerAddress(port=port)):
                with pytest.raises(ResumeFailed, match="load the session"):
                    await session.ask("two")


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_client_that_restarts_goes_on_with_its_session_there(scheme: str, tmp_path: Path) -> None:
    async with asyncio.timeout(60), AsyncExitStack() as first:
        port = await first.enter_async_context(serve(persistent_app(tmp_path / "kept"), ServerAddress()))
        async with connect(f"{scheme}://127.0.0.1:{port}", token=TOKEN, restart=True) as agent:
            session = await agent.new_session(tmp_path)
            assert await session.ask("one") == "received one"
            await first.aclose()
            async with serve(persistent_app(tmp_path / "kept"), ServerAddress(port=port)):
                with suppress(ResumeFailed):  # unless the loss was seen before anything was asked
                    await session.ask("two")
                assert await session.ask("three") == "received three"
                assert session.transcript.messages[0].text == "one"
