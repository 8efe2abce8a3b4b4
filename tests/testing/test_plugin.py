"""The pytest plugin as a project of its own would use it: every test here runs pytest in a directory elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"

AGENT = """\
import asyncio, os, sys
from pathlib import Path
import pytest
from duologue import Agent, Turn

class Watched(Agent):
    is_served = False

    async def serve(self, transport, **options):
        self.is_served = True
        try:
            await super().serve(transport, **options)
        finally:
            self.is_served = False

agent = Watched("watched")

@agent.on_prompt
async def answer(turn: Turn):
    await turn.say(turn.text.upper())

async def echo(prompt):
    yield prompt
"""

ASYNCIO_STRICT = "[pytest]\nasyncio_mode = strict\nasyncio_default_fixture_loop_scope = function\n"
ASYNCIO_AUTO = ASYNCIO_STRICT.replace("strict", "auto")


def run_pytest(
    folder: Path, tests: str, ini: str = ASYNCIO_AUTO, *arguments: str, temporary: Path | None = None
) -> tuple[int, str]:
    """Run tests outside the repository; return the exit code and what pytest printed."""
    (folder / "pytest.ini").write_text(ini)
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin", *arguments]
    env = os.environ if temporary is None else {**os.environ, "TMPDIR": str(temporary)}
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=100, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_an_agent_and_a_function_are_tested_in_memory(tmp_path: Path) -> None:
    tests = (
        AGENT
        + """
async def test_agent(acp, tmp_path):
    session = await acp.new_session(agent)
    turn = await session.prompt("hello")
    assert (turn.stop_reason, turn.text) == ("end_turn", "HELLO")
    assert Path(session.cwd) == tmp_path

class TestFunction:
    async def test_function(self, acp):
        assert await (await acp.new_session(echo)).ask("hello") == "hello"

def test_the_agent_was_closed_after_its_test():
    assert not agent.is_served
"""
    )
    code, output = run_pytest(tmp_path, tests)

    assert (code, "3 passed" in output) == (0, True), output


def test_an_agent_is_closed_when_the_test_fails(tmp_path: Path) -> None:
    tests = (
        AGENT
        + """
async def test_it(acp):
    session = await acp.new_session(agent)
    assert agent.is_served
    async with session.prompt("hello"):
        assert False, "planted"

def test_the_agent_was_closed_after_its_test():
    assert not agent.is_served
"""
    )
    code, output = run_pytest(tmp_path, tests)

    assert (code, "1 failed, 1 passed" in output) == (1, True), output
    assert "AssertionError: planted" in output


def test_a_fixture_of_a_project_may_open_the_session(tmp_path: Path) -> None:
    tests = (
        AGENT
        + """
import pytest_asyncio

@pytest_asyncio.fixture
async def session(acp):
    return await acp.new_session(agent)

@pytest.mark.asyncio
async def test_async(session):
    assert await session.ask("hello") == "HELLO"

def test_sync(session):
    assert agent.is_served

def test_the_agent_was_closed_after_its_test():
    assert not agent.is_served
"""
    )
    code, output = run_pytest(tmp_path, tests, ASYNCIO_STRICT)

    assert (code, "3 passed" in output) == (0, True), output


def test_anyio_runs_the_tests_just_as_well(tmp_path: Path) -> None:
    tests = (
        AGENT
        + """
pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.fixture
async def session(acp):
    return await acp.new_session(agent)

async def test_fixture(session):
    assert await session.ask("hello") == "HELLO"

async def test_direct(acp):
    assert await (await acp.new_session(echo)).ask("hello") == "hello"

def test_the_agent_was_closed_after_its_test():
    assert not agent.is_served
"""
    )
    code, output = run_pytest(tmp_path, tests, "", "-p", "no:asyncio")

    assert (code, "3 passed" in output) == (0, True), output


def test_a_command_is_stopped_at_the_end_of_the_test(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "import os, duologue\nasync def answer(prompt: str):\n    yield str(os.getpid())\nduologue.run(answer)\n"
    )
    tests = (
        AGENT
        + """
pids = []

async def test_command(acp):
    session = await acp.new_session([sys.executable, "agent.py"])
    pids.append(int(await session.ask("which process?")))
    os.kill(pids[0], 0)

def test_it_was_stopped():
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
"""
    )
    code, output = run_pytest(tmp_path, tests)

    assert (code, "2 passed" in output) == (0, True), output


def test_a_scenario_and_several_sessions_can_be_connected_to(tmp_path: Path) -> None:
    tests = (
        AGENT
        + """
from duologue.testing import Scenario, Script, Step

async def test_scenario(acp):
    script = Script(step=[Step(expect="session/prompt"), Step(reply={"result": {"stopReason": "max_tokens"}})])
    session = await acp.new_session(Scenario(script))
    assert (await session.prompt("hello")).stop_reason == "max_tokens"

async def test_sessions(acp, tmp_path):
    remote = await acp.connect(agent)
    sessions = [await remote.new_session(tmp_path) for _ in range(2)]
    assert [await session.ask(word) for session, word in zip(sessions, "ab")] == ["A", "B"]
"""
    )
    code, output = run_pytest(tmp_path, tests)

    assert (code, "2 passed" in output) == (0, True), output


def test_a_suite_that_does_not_use_the_plugin_loads_nothing_for_it(tmp_path: Path) -> None:
    tests = """
import sys

def test_nothing_is_loaded():
    loaded = {name for name in sys.modules if name.startswith(("duologue", "msgspec"))}
    plugins = {"duologue.testing", "duologue.testing.plugin", "duologue.evals", "duologue.evals.pytest_plugin"}
    assert loaded == {"duologue", "duologue.lazy_exports"} | plugins
"""
    code, output = run_pytest(tmp_path, tests)

    assert (code, "1 passed" in output) == (0, True), output


def test_importing_the_package_imports_no_pytest() -> None:
    code = "import sys; from duologue.testing import Scenario, AgentTester; assert 'pytest' not in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_example_passes(tmp_path: Path) -> None:
    tests = (EXAMPLES / "test_an_agent.py").read_text("utf-8")

    code, output = run_pytest(tmp_path, tests, ASYNCIO_STRICT)

    assert (code, "3 passed" in output) == (0, True), output


def test_the_example_with_a_recording_passes(tmp_path: Path) -> None:
    tests = (EXAMPLES / "test_a_recording.py").read_text("utf-8")
    shutil.copy(EXAMPLES / "janitor.acp", tmp_path)

    code, output = run_pytest(tmp_path, tests, ASYNCIO_STRICT)
    assert (code, "2 passed" in output) == (0, True), output

    code, output = run_pytest(tmp_path, tests.replace('kind="delete"', 'kind="move"'), ASYNCIO_STRICT)
    assert (code, "1 failed, 1 passed" in output) == (1, True), output
    assert "- tool call (delete): completed" in output
    assert "+ tool call (move): completed" in output


def test_the_example_with_faults_passes(tmp_path: Path) -> None:
    tests = (EXAMPLES / "test_with_faults.py").read_text("utf-8")

    code, output = run_pytest(tmp_path, tests, ASYNCIO_STRICT)
    assert (code, "21 passed" in output) == (0, True), output


def test_the_example_of_a_client_in_any_language_passes(tmp_path: Path) -> None:
    for name in ("plain_client.py", "client_test.toml"):
        shutil.copy(EXAMPLES / name, tmp_path)

    code, output = run_pytest(tmp_path, (EXAMPLES / "test_a_client.py").read_text("utf-8"))
    assert (code, "8 passed" in output) == (0, True), output


def test_a_failed_test_shows_the_seed_and_the_faults(tmp_path: Path) -> None:
    tests = """
from duologue.lowlevel import memory_pair
from duologue.testing import FaultPlan, FaultyTransport

async def test_it():
    near, far = memory_pair()
    async with FaultyTransport(near, FaultPlan(drop=1.0), seed=4711) as faulty, far:
        faulty.send(b"{}")
        assert False, "planted"

def test_other():
    assert False, "without faults"
"""
    code, output = run_pytest(tmp_path, tests)

    assert (code, "2 failed" in output) == (1, True), output
    assert output.count("fault seed 4711, FaultPlan(drop=1.0), faults of the send direction: message 1 dropped") == 1


def test_sessions_of_a_test_do_not_enter_the_directory_of_the_user(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    tests = (
        AGENT
        + """
OWN = Path.cwd() / "sessions"
agent.persist_sessions(OWN)
stored = agent.store

async def test_stored(acp, tmp_path):
    session = await acp.new_session(agent)
    await session.ask("hello")
    await session.aclose()
    other = await acp.connect(agent)
    assert (await (await other.load_session(session.id, tmp_path)).ask("again")) == "AGAIN"
    assert agent.store is not stored

async def test_empty_again(acp):
    remote = await acp.connect(agent)
    assert await remote.list_sessions() == []

def test_the_directory_is_as_before():
    assert agent.store is stored
    assert not OWN.exists()

async def test_a_temporary_directory_stays(acp, tmp_path):
    agent.persist_sessions(tmp_path / "sessions")
    await (await acp.new_session(agent)).ask("hello")
    assert (tmp_path / "sessions").is_dir()
"""
    )
    # The directory for temporary files is another one, because this project itself is in the usual one.
    (tmp_path / "temporary").mkdir()
    code, output = run_pytest(folder, tests, ASYNCIO_AUTO, temporary=tmp_path / "temporary")

    assert (code, "4 passed" in output) == (0, True), output


def test_settings_are_set_when_the_session_opens(tmp_path: Path) -> None:
    tests = """
from duologue import Agent, Settings, Turn, choice, toggle

class Chosen(Settings):
    mode = choice("ask", "write", category="mode")
    deep = toggle(False)

agent = Agent("settings", settings=Chosen)

@agent.on_prompt
async def answer(turn: Turn[Chosen]):
    await turn.say(f"{turn.settings.mode} {turn.settings.deep}")

async def test_it(acp):
    session = await acp.new_session(agent, settings={"mode": "write", "deep": True})
    assert await session.ask("?") == "write True"
"""
    code, output = run_pytest(tmp_path, tests)

    assert (code, "1 passed" in output) == (0, True), output


FAILING = (
    AGENT
    + """
@agent.on_prompt
async def fail(turn: Turn):
    async with turn.tool("Read", kind="read"):
        raise ValueError("planted")

async def test_it(acp):
    await (await acp.new_session(agent)).prompt("hello")
"""
)


def test_a_failed_test_shows_the_frames_of_the_author_and_no_others(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, FAILING)

    assert (code, "1 failed" in output) == (1, True), output
    assert "InternalError: ValueError" in output
    assert "in fail\n" in output
    assert "ValueError: planted" in output
    assert "/duologue/client/" not in output
    assert "/duologue/agent/" not in output
    assert len(output.splitlines()) < 40, output


def test_all_frames_are_shown_on_request(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, FAILING, ASYNCIO_AUTO, "--full-trace")

    assert code == 1
    assert "/duologue/client/" in output
    assert "/duologue/agent/" in output


def test_a_failed_test_without_the_fixture_is_reported_as_ever(tmp_path: Path) -> None:
    tests = FAILING + "\nasync def test_own():\n    import duologue\n    await duologue.ask('hi', agent)\n"
    code, output = run_pytest(tmp_path, tests)

    assert (code, "2 failed" in output) == (1, True), output
    assert "/duologue/client/" in output
