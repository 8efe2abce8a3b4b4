"""An agent of version 2 that is lost is restarted with its sessions, as a real process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from duologue.client.connect import connect
from duologue.errors import AgentExited

pytestmark = pytest.mark.timeout(60)


async def test_a_session_goes_on_with_an_agent_that_crashed_in_a_turn(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "duologue.cli.main", "agent", "--v2", "--sessions", str(tmp_path / "kept")]
    async with asyncio.timeout(60), connect(command, protocol_versions=(1, 2), restart=True) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.prompt("/plan")).stop_reason == "end_turn"
        known = len(session.transcript)
        with pytest.raises(AgentExited):
            await session.prompt("/crash")
        assert session.is_interrupted

        turn = await session.prompt("/plan")
        assert (agent.version, turn.stop_reason, session.state) == (2, "end_turn", "idle")
        texts = [message.text for message in session.transcript.messages if message.role == "user"]
        assert texts == ["/plan", "/crash", "/plan"]
        assert len(session.transcript) > known
