"""A server that is killed in the middle of a turn, and the one that takes its place."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from duologue import connect
from duologue.errors import ConnectionLost
from duologue.events import Text
from duologue.transports.process import process_tree as tree
from tests.cli.program import PROGRAM
from tests.cli.test_serve import SECONDS, served


@pytest.mark.fault("REC-09")
async def test_acknowledged_records_survive_a_killed_server(tmp_path: Path) -> None:
    agent_command = [*PROGRAM, "agent"]
    async with served(tmp_path, "--resume-timeout", "1", "--", *agent_command) as server:
        async with connect(server.url) as agent:
            session = await agent.new_session(tmp_path)
            whole = await session.prompt("/echo this turn ended")
            agents = [process for process in tree.descendants(server.process.pid) if _is_agent(process.pid)]
            assert agents
            with pytest.raises(ConnectionLost):
                async for event in session.prompt("/cancel-me"):
                    if isinstance(event, Text):
                        server.process.send_signal(signal.SIGKILL)
        await server.process.wait()
        async with asyncio.timeout(SECONDS):
            while any(tree.is_alive(process) for process in agents):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async with served(tmp_path, "--", *agent_command) as server, connect(server.url) as agent:
        assert session.id in [info.session_id for info in await agent.list_sessions()]
        loaded = await agent.load_session(session.id, tmp_path)
        text = "".join(message.text for message in loaded.transcript.messages if message.role == "agent")
        assert whole.text in text
        again = await loaded.prompt("/echo goes on")
        assert "goes on" in again.text


def _is_agent(pid: int) -> bool:
    return b"agent" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
