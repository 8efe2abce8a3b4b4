"""An agent that wants a login gets one, by the way its user chooses, and the request is sent once more."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duologue import sync
from duologue.client.auth import AuthOptions, LoginProgram
from duologue.client.connect import connect
from duologue.client.supervisor import Restart
from duologue.errors import AuthenticationRequired, InvalidParams, RequestError, SessionLost
from duologue.events import Text
from duologue.protocol.values import AuthMethod
from tests.client.scripted_agent import Answer, Json, ScriptedAgent, error, result

pytestmark = pytest.mark.timeout(30)

LOCKED = Path(__file__).with_name("locked_agent.py")
METHODS: list[Json] = [
    {"id": "browser", "name": "Browser", "description": "opens a page"},
    {"id": "shell", "name": "Shell", "type": "terminal", "args": ["--login"]},
]


def locked(directory: Path, *features: str) -> list[str]:
    return [sys.executable, str(LOCKED), str(directory), *features]


def runs(directory: Path) -> list[Json]:
    return [json.loads(line) for line in (directory / "runs").read_text().splitlines()]


def gated(agent: ScriptedAgent, answer: Answer) -> Answer:
    """Refuse until there was a login."""

    async def refuse(params: Json) -> Json:
        return await answer(params) if agent.calls("authenticate") else error(-32000, "who are you?")

    return refuse


def locked_in_memory(methods: list[Json], *gates: str) -> ScriptedAgent:
    agent = ScriptedAgent(authMethods=methods)
    for method in gates or ("session/new",):
        agent.answers[method] = gated(agent, agent.answers[method])
    return agent


def chooses(wanted: str, offered: list[list[str]]) -> Callable[[list[AuthMethod]], str]:
    def choose(methods: list[AuthMethod]) -> str:
        offered.append([method.method_id for method in methods])
        return wanted

    return choose


# --- by the agent itself


@pytest.mark.rule(40, 41)
async def test_a_refused_request_is_sent_again_after_the_login_that_was_chosen(tmp_path: Path) -> None:
    offered: list[list[str]] = []
    agent = locked_in_memory(METHODS)
    async with asyncio.timeout(60), connect(agent, login=chooses("browser", offered)) as remote:
        session = await remote.new_session(tmp_path)
        await remote.new_session(tmp_path)
        assert session.id == "s1"
    assert offered == [["browser", "shell"]]
    assert agent.calls("authenticate") == [{"methodId": "browser"}]
    assert len(agent.calls("session/new")) == 3


async def test_the_choice_may_take_its_time_and_return_the_method_itself(tmp_path: Path) -> None:
    async def choose(methods: list[AuthMethod]) -> AuthMethod:
        await asyncio.sleep(0)
        return methods[0]

    agent = locked_in_memory(METHODS)
    async with asyncio.timeout(60), connect(agent, login=choose) as remote:
        await remote.new_session(tmp_path)
    assert agent.calls("authenticate") == [{"methodId": "browser"}]


async def test_a_prompt_that_is_refused_is_sent_again_too(tmp_path: Path) -> None:
    agent = locked_in_memory(METHODS, "session/prompt")
    async with asyncio.timeout(60), connect(agent, login="browser") as remote, remote.new_session(tmp_path) as session:
        assert (await session.prompt("go")).stop_reason == "end_turn"
    assert len(agent.calls("session/prompt")) == 2


async def test_several_refused_requests_need_one_login(tmp_path: Path) -> None:
    agent = locked_in_memory(METHODS)
    both_refused = asyncio.Event()

    async def refuse_both(params: Json) -> Json:
        if agent.calls("authenticate"):
            return result(sessionId=f"s{next(agent.sessions)}")
        if len(agent.calls("session/new")) == 2:
            both_refused.set()
        await both_refused.wait()
        return error(-32000, "who are you?")

    agent.answers["session/new"] = refuse_both
    async with asyncio.timeout(60), connect(agent, login="browser") as remote:
        await asyncio.gather(remote.new_session(tmp_path), remote.new_session(tmp_path))
    assert len(agent.calls("authenticate")) == 1


async def test_a_request_is_sent_again_only_once(tmp_path: Path) -> None:
    async def refuse(params: Json) -> Json:
        return error(-32000, "still not")

    agent = ScriptedAgent(authMethods=METHODS)
    agent.answers["session/new"] = refuse
    async with asyncio.timeout(60), connect(agent, login="browser") as remote:
        with pytest.raises(AuthenticationRequired, match="still not"):
            await remote.new_session(tmp_path)
    assert len(agent.calls("session/new")) == 2


async def test_without_a_choice_the_error_says_which_ways_there_are(tmp_path: Path) -> None:
    methods = [*METHODS, {"id": "key", "name": "Key", "type": "env_var", "vars": [{"name": "THE_KEY"}]}]
    agent = locked_in_memory(methods)
    async with asyncio.timeout(60), connect(agent) as remote:
        with pytest.raises(AuthenticationRequired) as raised:
            await remote.new_session(tmp_path)
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("who are you?; log in by one of these methods first")
    assert lines[1:] == [
        "  browser: Browser, opens a page",
        "  shell: Shell (in a terminal)",
        "  key: Key (by the environment: THE_KEY)",
    ]
    assert agent.calls("authenticate") == []


async def test_a_required_login_without_methods_says_so(tmp_path: Path) -> None:
    agent = locked_in_memory([])
    async with asyncio.timeout(60), connect(agent, login=lambda methods: pytest.fail("nothing to choose")) as remote:
        with pytest.raises(AuthenticationRequired, match="offers no login methods"):
            await remote.new_session(tmp_path)


async def test_a_user_who_chooses_nothing_has_not_logged_in(tmp_path: Path) -> None:
    agent = locked_in_memory(METHODS)
    async with asyncio.timeout(60), connect(agent, login=lambda methods: None) as remote:
        with pytest.raises(AuthenticationRequired, match="log in by one of these"):
            await remote.new_session(tmp_path)


async def test_a_login_that_the_agent_rejects_is_reported_as_such(tmp_path: Path) -> None:
    async def refuse(params: Json) -> Json:
        return error(-32603, "the server is down")

    agent = locked_in_memory(METHODS)
    agent.answers["authenticate"] = refuse
    async with asyncio.timeout(60), connect(agent, login="browser") as remote:
        with pytest.raises(AuthenticationRequired, match="logging in by 'Browser' failed: the server is down"):
            await remote.new_session(tmp_path)


# --- in a terminal


@pytest.mark.rule(37, 38)
async def test_a_login_in_a_terminal_runs_the_same_program_with_more_arguments(tmp_path: Path) -> None:
    ran: list[LoginProgram] = []

    async def run(program: LoginProgram) -> int:
        ran.append(program)
        process = await asyncio.create_subprocess_exec(*program.argv, env=program.env, cwd=program.cwd)
        return await process.wait()

    command = locked(tmp_path)
    env = {"COLOUR": "blue", "SIZE": "small"}
    async with asyncio.timeout(60), connect(command, env=env, cwd=tmp_path, login=AuthOptions("shell", run)) as remote:
        first = remote.connection
        session = await remote.new_session(tmp_path)
        assert remote.connection is not first
        assert (await session.prompt("go")).stop_reason == "end_turn"
    assert ran[0].argv == [*command, "--login", "now"]
    assert ran[0].env["COLOUR"] == "red"
    assert ran[0].env["SIZE"] == "small"
    served, login, served_again = runs(tmp_path)
    assert login["argv"] == served["argv"] + ["--login", "now"]
    assert login["colour"] == "red"
    assert served_again == {**served, "pid": served_again["pid"]}
    assert "authenticate" not in (tmp_path / "received").read_text()
    assert (tmp_path / "received").read_text().count("initialize") == 2


@pytest.mark.rule(38)
async def test_a_login_program_that_fails_is_no_login(tmp_path: Path) -> None:
    async def run(program: LoginProgram) -> int:
        return 7

    async with asyncio.timeout(60), connect(locked(tmp_path), login=AuthOptions("shell", run)) as remote:
        with pytest.raises(AuthenticationRequired, match="ended with 7"):
            await remote.new_session(tmp_path)
        assert len(runs(tmp_path)) == 1


async def test_open_sessions_go_on_after_a_login_in_a_terminal(tmp_path: Path) -> None:
    async def run(program: LoginProgram) -> int:
        (tmp_path / "key").write_text("")
        return 0

    (tmp_path / "key").write_text("")
    async with asyncio.timeout(60), connect(locked(tmp_path, "resume"), login=AuthOptions("shell", run)) as remote:
        session = await remote.new_session(tmp_path)
        received = asyncio.ensure_future(anext(session.events()))
        (tmp_path / "key").unlink()
        assert (await session.prompt("go")).stop_reason == "end_turn"
        assert isinstance(await received, Text)
    assert len(runs(tmp_path)) == 2
    assert (tmp_path / "received").read_text().count("session/resume") == 1


async def test_a_session_that_cannot_be_reopened_after_a_login_is_lost(tmp_path: Path) -> None:
    async def run(program: LoginProgram) -> int:
        (tmp_path / "key").write_text("")
        return 0

    (tmp_path / "key").write_text("")
    async with asyncio.timeout(60), connect(locked(tmp_path), login=AuthOptions("shell", run)) as remote:
        session = await remote.new_session(tmp_path)
        (tmp_path / "key").unlink()
        with pytest.raises(SessionLost):
            await session.prompt("go")


async def test_a_login_in_a_terminal_needs_a_program_to_run_there(tmp_path: Path) -> None:
    agent = locked_in_memory(METHODS)
    async with asyncio.timeout(60), connect(agent, login="shell") as remote:
        with pytest.raises(AuthenticationRequired, match="did not start the agent"):
            await remote.new_session(tmp_path)
        with pytest.raises(InvalidParams, match="in a terminal"):
            await remote.login("shell")
    assert agent.calls("authenticate") == []


async def test_a_method_described_only_in_meta_runs_what_it_names(tmp_path: Path) -> None:
    """In the wild: `_meta` with the command of a login, from before the protocol had a way to say it."""
    ran: list[LoginProgram] = []

    async def run(program: LoginProgram) -> int:
        ran.append(program)
        (tmp_path / "key").write_text("")
        return 0

    async with asyncio.timeout(60), connect(locked(tmp_path), login=AuthOptions("older", run)) as remote:
        await remote.new_session(tmp_path)
    assert ran[0].argv == ["tool", "login"]
    assert ran[0].env["A"] == "1"


async def test_a_restarted_agent_that_wants_a_login_gets_it_before_its_session_goes_on(tmp_path: Path) -> None:
    agent = ScriptedAgent({"sessionCapabilities": {"resume": {}}}, authMethods=METHODS)
    agent.answers["session/resume"] = gated(agent, agent_ok)
    async with asyncio.timeout(60), connect(agent, login="browser", restart=Restart()) as remote:
        session = await remote.new_session(tmp_path)
        await agent.transport.aclose()
        await remote.connection.wait_closed()
        assert (await session.prompt("go")).stop_reason == "end_turn"
    assert len(agent.calls("authenticate")) == 1
    assert len(agent.calls("session/resume")) == 2


async def agent_ok(params: Json) -> Json:
    return result()


def test_the_same_works_without_an_event_loop(tmp_path: Path) -> None:
    async def run(program: LoginProgram) -> int:
        process = await asyncio.create_subprocess_exec(*program.argv, env=program.env, stdin=asyncio.subprocess.DEVNULL)
        return await process.wait()

    with (
        sync.connect(locked(tmp_path), login=AuthOptions("shell", run)) as agent,
        agent.new_session(tmp_path) as session,
    ):
        assert session.ask("hello") == "welcome"


# --- by the environment


VARIABLES: list[Json] = [
    {
        "id": "k",
        "name": "Key",
        "type": "env_var",
        "vars": [{"name": "LOGIN_KEY"}, {"name": "REGION", "optional": True}],
    },
    {"id": "k", "name": "Key", "type": "env_var", "varName": "LOGIN_KEY"},
    {"id": "k", "name": "Key", "type": "env_var", "varNames": ["LOGIN_KEY"]},
    {"id": "k", "name": "Key", "_meta": {"varName": "LOGIN_KEY"}},
]


@pytest.mark.parametrize("method", VARIABLES)
async def test_variables_that_are_missing_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: Json
) -> None:
    monkeypatch.delenv("LOGIN_KEY", raising=False)
    agent = locked_in_memory([{**method, "link": "https://example.com/keys"}])
    async with asyncio.timeout(60), connect(agent, login="k") as remote:
        with pytest.raises(AuthenticationRequired, match="set LOGIN_KEY in the environment first"):
            await remote.new_session(tmp_path)
    assert agent.calls("authenticate") == []


@pytest.mark.parametrize("method", VARIABLES)
async def test_variables_that_are_set_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: Json) -> None:
    monkeypatch.setenv("LOGIN_KEY", "secret")
    agent = locked_in_memory([method])
    async with asyncio.timeout(60), connect(agent, login="k") as remote:
        await remote.new_session(tmp_path)
    assert agent.calls("authenticate") == [{"methodId": "k"}]


async def test_a_variable_set_after_the_start_reaches_a_new_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCKED_KEY", raising=False)

    def choose(methods: list[AuthMethod]) -> str:
        monkeypatch.setenv("LOCKED_KEY", "secret")
        return "key"

    async with asyncio.timeout(60), connect(locked(tmp_path), login=choose) as remote:
        await remote.new_session(tmp_path)
    assert [run["key"] for run in runs(tmp_path)] == [None, "secret"]
    assert (tmp_path / "received").read_text().count("authenticate") == 1


@pytest.mark.fault("WLD-09")
@pytest.mark.parametrize("methods", [[], [{"id": "key", "name": "Key"}]])
async def test_the_login_code_inside_a_session_demands_a_login_only_where_there_is_one(
    tmp_path: Path, methods: list[Json]
) -> None:
    """The Java SDK answers a concurrent prompt with -32000, and has no login."""

    async def busy(params: Json) -> Json:
        return error(-32000, "There is already an active prompt execution", data={"sessionId": "s1"})

    agent = ScriptedAgent(authMethods=methods, prompt=busy)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        with pytest.raises(RequestError, match="already an active prompt") as raised:
            await session.prompt("go")
        assert isinstance(raised.value, AuthenticationRequired) == bool(methods)
        assert (raised.value.code, raised.value.data) == (-32000, {"sessionId": "s1"})
        assert await remote.call("_still", {}) == {}


# --- whether a login in a terminal is advertised


async def advertised(target: Any, **options: Any) -> object:
    """Return what `initialize` advertises about logins in a terminal."""
    frames: list[Json] = []
    async with (
        asyncio.timeout(60),
        connect(target, observers=(lambda direction, frame: frames.append(json.loads(frame)),), **options),
    ):
        return frames[0]["params"]["clientCapabilities"].get("auth", {}).get("terminal", False)


async def test_a_login_in_a_terminal_is_advertised_only_where_a_program_can_run(tmp_path: Path) -> None:
    async def run(program: LoginProgram) -> int:
        return 0

    elsewhere = AuthOptions("shell", run)
    assert await advertised(ScriptedAgent(), login=elsewhere) is False  # there is no program to run
    assert await advertised(locked(tmp_path), login=elsewhere) is True


@pytest.mark.parametrize("has_terminal", [True, False])
def test_a_login_in_a_terminal_is_advertised_only_where_there_is_one(tmp_path: Path, has_terminal: bool) -> None:
    program = """
        import asyncio, json, pathlib, sys
        from duologue import connect

        async def main() -> None:
            frames = []
            async with connect(sys.argv[2:], observers=(lambda direction, frame: frames.append(json.loads(frame)),)):
                pathlib.Path(sys.argv[1]).write_text(json.dumps(frames[0]["params"]["clientCapabilities"].get("auth")))

        asyncio.run(main())
    """
    output = tmp_path / "output"
    run = [sys.executable, "-c", textwrap.dedent(program), str(output), *locked(tmp_path)]
    leader, follower = pty.openpty()
    try:
        stdio = follower if has_terminal else subprocess.DEVNULL
        # A session of its own has no terminal to open other than its stdio.
        subprocess.run(run, stdin=stdio, stdout=stdio, stderr=stdio, timeout=60, start_new_session=True, check=True)
    finally:
        os.close(leader)
        os.close(follower)
    assert json.loads(output.read_text()) == ({"terminal": True} if has_terminal else None)
