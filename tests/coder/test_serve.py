"""The coding agent behind `duologue serve`, for a client on a WebSocket."""

from __future__ import annotations

import asyncio
from pathlib import Path

from duologue.testing import ModelServer, ModelTurn, tool_call
from tests.cli.test_serve import served
from tests.coder.client import User, open_client
from tests.coder.test_process import command_line

EDIT = tool_call("edit_file", path="calc.py", old_text="a - b", new_text="a + b")
RUN = tool_call("run_command", command="touch made")


async def test_a_client_on_a_websocket_edits_its_files_and_runs_commands(project: Path, tmp_path: Path) -> None:
    user = User()
    script = [ModelTurn(tools=[EDIT]), ModelTurn(tools=[RUN]), ModelTurn("Fixed.")]
    async with asyncio.timeout(200), ModelServer(script) as server:
        command = command_line(server, tmp_path / "data")
        async with served(tmp_path, "--", *command, OPENAI_API_KEY=server.api_key) as service:
            async with open_client(project, service.url, user) as agent, agent.new_session(project) as session:
                turn = await session.prompt("fix add")
            code, _ = await service.stop()
        server.check()

    assert (turn.stop_reason, turn.text, code) == ("end_turn", "Fixed.", 0)
    assert "a + b" in (project / "calc.py").read_text()
    assert (project / "made").exists()
    assert user.titles == ["touch made"]
