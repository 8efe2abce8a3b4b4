"""/mcp: the servers a client brings along."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from duologue.schema import v1
from tests.builtin.harness import bench
from tests.mcp.server_processes import small


def on_wire(*behaviours: str, name: str = "small") -> v1.McpServerStdio:
    server = small(*behaviours, name=name)
    return v1.McpServerStdio(name=server.name, command=server.command, args=server.args, env=[])


async def test_servers_and_their_tools_are_listed_and_those_that_failed_are_named(tmp_path: Path) -> None:
    async with bench(tmp_path, mcp_servers=[on_wire(), on_wire("exit", name="broken")]) as on:
        said = await on.say("/mcp")
        assert "| `small` | `echo` | repeats its input |" in said
        assert "`broken` cannot be used" in said


async def test_a_tool_is_called_and_its_answer_shown(tmp_path: Path) -> None:
    async with bench(tmp_path, choose="allow_always", mcp_servers=[on_wire()]) as on:
        said = await on.say('/mcp small echo {"tea": 2}')
        assert 'answered: {"tea": 2}' in said
        (call,) = on.of(v1.ToolCall)
        assert (call.title, call.name, call.raw_input) == ("small: echo", "echo", {"tea": 2})
        assert on.shown == [v1.Content(content=v1.TextContent(text='{"tea": 2}'))]
        assert on.status == "completed"
        assert len(on.asked) == 1
        await on.say("/mcp small echo")
        assert len(on.asked) == 1  # always means always


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/mcp small dance", "There is no tool `dance` on a server `small`"),
        ("/mcp nowhere echo", "There is no tool `echo` on a server `nowhere`"),
        ("/mcp small echo [1]", "must be a JSON object"),
        ("/mcp small refuse", "`refuse` could not be called"),
    ],
)
async def test_a_tool_that_cannot_be_called_is_reported(tmp_path: Path, command: str, said: str) -> None:
    async with bench(tmp_path, mcp_servers=[on_wire()]) as on:
        assert said in await on.say(command)


async def test_a_session_without_servers_says_so(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        assert "This session has no MCP servers" in await on.say("/mcp")


async def test_without_the_sdk_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    async with bench(tmp_path, mcp_servers=[on_wire()]) as on:
        assert "install `duologue[mcp]`" in await on.say("/mcp")
