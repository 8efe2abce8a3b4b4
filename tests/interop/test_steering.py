"""Our client steers an agent on the TypeScript SDK that has the extension of the two official adapters."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duologue import connect
from tests.interop.peers import TYPESCRIPT
from tests.interop.sdks import install

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]


async def test_texts_join_the_running_turn_and_are_ours_again_after_it(tmp_path: Path) -> None:
    sdk = install(TYPESCRIPT)
    async with asyncio.timeout(60), connect(sdk.program("steered_agent"), env=sdk.variables) as agent:
        assert agent.capabilities.steering
        async with agent.new_session(tmp_path) as session:
            async with session.prompt("go") as turn:
                assert (await turn.steer("use pytest")).outcome == "injected"
                assert (await turn.steer("stop")).outcome == "injected"
                async for _ in turn:
                    pass
            late = await turn.steer("late")
            queued = await turn.steer("again", otherwise="queue")
            assert queued.turn is not None
            assert (await queued.turn.steer("stop")).outcome == "injected"
            await queued.turn

        assert turn.text == "working [use pytest] "
        assert (late.outcome, late.reason) == ("prompt_required", "noRunningTurn")
        assert queued.turn.stop_reason == "end_turn"
        users = [message.text for message in session.transcript.messages if message.role == "user"]
        assert users == ["go", "use pytest", "stop", "again", "stop"]
