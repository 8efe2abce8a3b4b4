"""`duologue code` as a process: from the command line, restarted, cancelled in each phase, without a key."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from duologue.client.agent import RemoteAgent
from duologue.errors import AgentExited, InvalidParams
from duologue.testing import ModelServer, ModelTurn, RequestPattern, tool_call
from tests.coder.client import MODEL, User, open_client

EDIT = tool_call("edit_file", path="calc.py", old_text="a - b", new_text="a + b")
READ = tool_call("read_file", path="calc.py")


def command_line(server: ModelServer, data: Path) -> list[str]:
    program = [sys.executable, "-m", "duologue", "code"]
    return [*program, "--base-url", server.openai_url, "--model", MODEL, "--sessions", str(data)]


def environment(server: ModelServer, tmp_path: Path) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": server.api_key,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path),
    }


async def kill_when_held(server: ModelServer, pid: Path) -> None:
    await server.held()
    os.kill(int(await asyncio.to_thread(pid.read_text)), signal.SIGKILL)


@asynccontextmanager
async def process(
    project: Path, server: ModelServer, tmp_path: Path, user: User | None = None, options: Sequence[str] = ()
) -> AsyncGenerator[RemoteAgent]:
    line = shlex.join([*command_line(server, tmp_path / "data"), *options])
    command = ["sh", "-c", f"echo $$ > {shlex.quote(str(tmp_path / 'pid'))}; exec {line}"]
    async with open_client(project, command, user or User(), env=environment(server, tmp_path)) as agent:
        yield agent


async def test_run_edits_a_file_with_the_agent_by_its_name(project: Path, tmp_path: Path) -> None:
    script = [ModelTurn(tools=[EDIT]), ModelTurn("Fixed.")]
    async with asyncio.timeout(200), ModelServer(script) as server:
        more = {"OPENAI_BASE_URL": server.openai_url, "XDG_DATA_HOME": str(tmp_path / "data")}
        variables = {**os.environ, **environment(server, tmp_path), **more}
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "duologue", "run", "fix add", "--agent", "code"),
            *("--yes", "--json", "--cwd", str(project)),
            env=variables,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await child.communicate()
        server.check()

    assert child.returncode == 0
    assert (project / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert any(json.loads(line).get("event") == "ToolCall" for line in output.splitlines())


async def test_a_session_goes_on_after_a_restart_and_can_be_undone_and_forked(project: Path, tmp_path: Path) -> None:
    script = [
        ModelTurn(tools=[EDIT]),
        ModelTurn("Fixed."),
        ModelTurn("I fixed add.", expect=RequestPattern(history=["fix add", "Fixed.", "what did you do?"])),
        ModelTurn("The same.", expect=RequestPattern(history=["fix add", "what did you do?", "and you?"])),
    ]
    async with asyncio.timeout(200), ModelServer(script) as server:
        async with process(project, server, tmp_path) as agent, agent.new_session(project) as session:
            await session.set_mode("auto")
            await session.prompt("fix add")
            session_id = session.id
        async with process(project, server, tmp_path) as agent:
            async with agent.load_session(session_id, project) as loaded:
                texts = [message.text for message in loaded.transcript.messages]
                assert texts == ["fix add", "Fixed."]
                assert loaded.modes is not None
                assert loaded.modes.current == "auto"
                assert (await loaded.prompt("what did you do?")).text == "I fixed add."
            async with agent.fork_session(session_id, project) as fork:
                assert (await fork.prompt("and you?")).text == "The same."
            async with agent.resume_session(session_id, project) as resumed:
                assert (await resumed.prompt("/undo")).text == "- restored `calc.py`\n"
        server.check()

    assert "a - b" in (project / "calc.py").read_text()


async def test_a_killed_agent_leaves_a_session_that_goes_on(project: Path, tmp_path: Path) -> None:
    script = [
        ModelTurn(tools=[EDIT]),
        ModelTurn("never sent", hold_after=0),
        ModelTurn("Going on.", when=RequestPattern(prompt="go on")),
    ]
    async with asyncio.timeout(200), ModelServer(script) as server:
        async with process(project, server, tmp_path) as agent, agent.new_session(project) as session:
            session_id = session.id
            turn = session.prompt("fix add")
            with pytest.raises(AgentExited):
                await asyncio.gather(turn, kill_when_held(server, tmp_path / "pid"))
        async with process(project, server, tmp_path) as agent:
            async with agent.load_session(session_id, project) as loaded:
                assert (await loaded.prompt("go on")).text == "Going on."


async def test_without_a_key_the_prompt_says_what_to_set(project: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "duologue",
        "code",
        "--model",
        "anthropic:claude-sonnet-5-5",
        "--sessions",
        str(tmp_path / "d"),
    ]
    async with asyncio.timeout(200):
        async with open_client(project, command, User()) as agent, agent.new_session(project) as session:
            with pytest.raises(InvalidParams, match="set ANTHROPIC_API_KEY in the environment"):
                await session.prompt("hello")
