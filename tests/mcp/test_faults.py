"""Failures of MCP servers that a session survives."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import pytest

from duologue.conversation.session_setup import McpServer, StdioMcpServer
from duologue.errors import McpBackendFailed, McpServerUnavailable
from duologue.mcp.servers import McpServers
from tests.mcp.server_processes import SERVERS, is_gone, small, until_gone

MIB = 1024 * 1024


@pytest.mark.fault("MCP-01")
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (StdioMcpServer(name="broken", command="no-such-command"), "no command 'no-such-command'"),
        (StdioMcpServer(name="broken", command="/no/such/file"), "no such file"),
        (StdioMcpServer(name="broken", command=""), "the command is empty"),
        (small("exit", name="broken"), "exited with code 1\nI do not want to"),
        (small("hang", name="broken"), "no answer within 6 s\nOk to proceed? (y)"),
    ],
    ids=["missing", "no file", "empty", "exits at once", "hangs"],
)
async def test_a_server_that_does_not_start_is_reported_and_the_others_work(broken: McpServer, reason: str) -> None:
    async with asyncio.timeout(60), McpServers([broken, small()], start_timeout=6) as servers:
        assert (await servers.call("small", "echo")).text == "{}"
        await servers.ready()

        assert list(servers.errors) == ["broken"]
        assert reason in servers.errors["broken"]
        assert servers.states == {"broken": "failed", "small": "ready"}
        with pytest.raises(McpServerUnavailable, match="MCP server 'broken' is failed"):
            await servers.call("broken", "echo")


@pytest.mark.fault("MCP-02")
async def test_noise_on_stdout_is_ignored() -> None:
    async with asyncio.timeout(60), McpServers([small("noise")]) as servers:
        assert (await servers.call("small", "echo")).text == "{}"


@pytest.mark.fault("MCP-02")
async def test_a_flood_on_stdout_and_stderr_is_drained() -> None:
    async with asyncio.timeout(60), McpServers([small()]) as servers:
        assert (await servers.call("small", "flood", {"size": 8 * MIB})).text == ""


@pytest.mark.fault("MCP-02")
async def test_an_answer_over_the_limit_fails_its_call_and_the_server_lives_on() -> None:
    async with asyncio.timeout(60), McpServers([small()]) as servers:
        pid = json.loads((await servers.call("small", "environment")).text)["PID"]
        with pytest.raises(McpBackendFailed, match=r"a message of 1048\d+ bytes, which is over the limit"):
            await servers.call("small", "huge", {"size": 100 * MIB})

        assert json.loads((await servers.call("small", "environment")).text)["PID"] == pid


@pytest.mark.fault("MCP-02")
async def test_an_answer_over_the_limit_that_does_not_say_whose_it_is_ends_the_server() -> None:
    async with asyncio.timeout(60), McpServers([small()], max_message_bytes=MIB, restart_pauses=[0]) as servers:
        with pytest.raises(McpServerUnavailable, match="over the limit"):
            await servers.call("small", "nameless", {"size": 2 * MIB})

        assert (await servers.call("small", "echo")).text == "{}"


@pytest.mark.fault("MCP-02")
async def test_a_line_that_never_ends_ends_the_server() -> None:
    async with asyncio.timeout(60), McpServers([small()], max_message_bytes=MIB, restart_pauses=[]) as servers:
        with pytest.raises(McpServerUnavailable, match="a line of more than"):
            await servers.call("small", "huge", {"size": 8 * MIB})


@pytest.mark.fault("MCP-03")
async def test_a_server_sees_the_safe_list_and_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"API_KEY": "secret", "LC_TIME": "C", "PYTHONPATH": "/nowhere", "HOME": "/root"}.items():
        monkeypatch.setenv(name, value)

    async with asyncio.timeout(60), McpServers([small(env={"TOKEN": "given", "HOME": "/given"})]) as servers:
        seen = json.loads((await servers.call("small", "environment")).text)

    assert (seen["TOKEN"], seen["HOME"], seen["LC_TIME"], seen["PATH"]) == ("given", "/given", "C", os.environ["PATH"])
    safe = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR"}
    ours = {"TOKEN", "PID", "DUOLOGUE_OWNER"}
    assert {name for name in seen if not name.startswith("LC_")} <= safe | ours
    assert seen["DUOLOGUE_OWNER"]


async def test_a_server_runs_in_the_directory_of_the_session(tmp_path: Path) -> None:
    async with asyncio.timeout(60), McpServers([small()], cwd=str(tmp_path)) as servers:
        pid = json.loads((await servers.call("small", "environment")).text)["PID"]

        assert os.readlink(f"/proc/{pid}/cwd") == str(tmp_path)


@pytest.mark.fault("MCP-04")
async def test_a_server_that_dies_in_a_call_is_restarted_three_times_and_then_failed() -> None:
    seen: list[str] = []
    pauses = [0.01, 0.02, 0.03]

    def on_change(name: str) -> None:
        seen.append(servers.states[name])

    async with asyncio.timeout(60), McpServers([small()], restart_pauses=pauses, on_change=on_change) as servers:
        for _ in range(1 + len(pauses)):
            with pytest.raises(McpServerUnavailable, match=r"ended before it answered: .* by SIGKILL\nlast line"):
                await servers.call("small", "die")
        with pytest.raises(McpServerUnavailable, match="MCP server 'small' is failed"):
            await servers.call("small", "echo")

        assert seen == ["ready", "restarting"] * 4 + ["failed"]
        assert "SIGKILL" in servers.errors["small"]


@pytest.mark.fault("MCP-04")
async def test_other_active_calls_fail_too_when_a_call_kills_the_server() -> None:
    async with asyncio.timeout(60), McpServers([small()], restart_pauses=[]) as servers:
        await servers.ready()
        outcomes = await asyncio.gather(
            *(servers.call("small", tool) for tool in ("wait", "wait", "die")), return_exceptions=True
        )

    assert [type(outcome) for outcome in outcomes] == [McpServerUnavailable] * 3


@pytest.mark.fault("MCP-05")
@pytest.mark.parametrize("behaviours", [[], ["stubborn"]], ids=["willing", "stubborn"])
async def test_a_closed_session_leaves_no_server_and_no_child_of_one(behaviours: list[str]) -> None:
    async with asyncio.timeout(60), McpServers([small(*behaviours)]) as servers:
        server = json.loads((await servers.call("small", "environment")).text)["PID"]
        child = int((await servers.call("small", "family")).text)
        async with asyncio.timeout(60):
            await servers.aclose()

        assert is_gone(int(server))
        assert is_gone(child)


@pytest.mark.fault("MCP-05")
async def test_a_session_closed_while_its_servers_start_leaves_nothing() -> None:
    async with asyncio.timeout(60):
        async with McpServers([small("hang"), small(name="other")]) as servers:
            await servers.call("other", "echo")
            async with asyncio.timeout(60):
                await servers.aclose()

        assert servers.states == {"small": "closed", "other": "closed"}


@pytest.mark.fault("MCP-05")
async def test_a_killed_agent_leaves_no_server_and_no_child_of_one() -> None:
    agent = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVERS / "agent.py"), str(SERVERS / "small.py"), "stubborn", stdout=subprocess.PIPE
    )
    assert agent.stdout is not None
    async with asyncio.timeout(60):
        child = int(await agent.stdout.readline())
    server = _parent(child)
    agent.kill()

    async with asyncio.timeout(60):
        await until_gone(server)
        await until_gone(child)
    await agent.wait()


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.fault("MCP-06")
async def test_of_two_servers_with_one_name_the_second_is_refused() -> None:
    twins = [small(), small("exit"), small("exit"), small(name="other")]

    async with asyncio.timeout(60), McpServers(twins) as servers:
        await servers.ready()

        assert servers.states == {"small": "ready", "other": "ready"}
        assert list(servers.errors) == ["small (2)", "small (3)"]
        assert "another server is called 'small'" in servers.errors["small (2)"]


@pytest.mark.fault("MCP-06")
@pytest.mark.parametrize("name", ["", " ", "a/b", "日本", "a__b", "\x1b[31m", "../..", "x" * 1000, "\u202egnp"])
async def test_a_server_may_have_any_name(name: str) -> None:
    async with asyncio.timeout(60), McpServers([small(name=name)]) as servers:
        assert (await servers.call(name, "echo")).text == "{}"
        assert {tool.server for tool in servers.tools} == {name}


@pytest.mark.fault("MCP-06")
async def test_a_hundred_servers_start_a_few_at_a_time(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("count", "100 servers")
    starts = tmp_path / "starts"
    many = [small(name=f"s{number}", env={"STARTS": str(starts)}) for number in range(100)]

    async with asyncio.timeout(100), McpServers(many, parallel=8) as servers:
        results = await asyncio.gather(*(servers.call(f"s{n}", "echo", {"n": n}) for n in range(100)))

    assert [json.loads(result.text)["n"] for result in results] == list(range(100))
    at_once = list(accumulate({"+": 1, "-": -1}[mark] for mark in starts.read_text()))
    assert 1 < max(at_once) <= 8


@pytest.mark.fault("MCP-09")
async def test_failed_handshakes_leave_nothing_behind(
    chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    rounds = 5 * chaos_factor
    record_property("count", f"{rounds * 4} failed handshakes")
    broken = [
        small("exit", name="exits"),
        small("hang", name="hangs"),
        StdioMcpServer(name="missing", command="no-such-command"),
        StdioMcpServer(name="false", command="/bin/false"),
    ]

    async def fail_once() -> None:
        async with McpServers(broken, start_timeout=0.25) as servers:
            await servers.ready()
            assert len(servers.errors) == len(broken)

    async with asyncio.timeout(30 * rounds):
        await fail_once()
        before = _possessions()
        for _ in range(rounds):
            await fail_once()

    assert _possessions() == before


def _possessions() -> tuple[int, int]:
    """Return the number of open descriptors and of children, zombies included."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return len(os.listdir("/proc/self/fd")), len(children)
