"""/mcp: the servers a client brings along."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from duologue.schema import v1
from tests.builtin.harness import open_harness
from tests.mcp.server_processes import small


def on_wire(*behaviours: str, name: str = "small") -> v1.McpServerStdio:
    server = small(*behaviours, name=name)
    return v1.McpServerStdio(name=server.name, command=server.command, args=server.args, env=[])


async def test_servers_and_their_tools_are_listed_and_those_that_failed_are_named(tmp_path: Path) -> None:
    async with open_harness(tmp_path, mcp_servers=[on_wire(), on_wire("exit", name="broken")]) as harness:
        text = await harness.ask("/mcp")
        assert "| `small` | `echo` | repeats its input |" in text
        assert "`broken` cannot be used" in text


async def test_a_tool_is_called_and_its_answer_shown(tmp_path: Path) -> None:
    async with open_harness(tmp_path, choose="allow_always", mcp_servers=[on_wire()]) as harness:
        text = await harness.ask('/mcp small echo {"tea": 2}')
        assert 'answered: {"tea": 2}' in text
        (call,) = harness.of(v1.ToolCall)
        assert (call.title, call.name, call.raw_input) == ("small: echo", "echo", {"tea": 2})
        assert harness.shown == [v1.Content(content=v1.TextContent(text='{"tea": 2}'))]
        assert harness.status == "completed"
        assert len(harness.asked) == 1
        await harness.ask("/mcp small echo")
        assert len(harness.asked) == 1  # always means always


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("/mcp small dance", "There is no tool `dance` on a server `small`"),
        ("/mcp nowhere echo", "There is no tool `echo` on a server `nowhere`"),
        ("/mcp small echo [1]", "must be a JSON object"),
        ("/mcp small refuse", "`refuse` could not be called"),
    ],
)
async def test_a_tool_that_cannot_be_called_is_reported(tmp_path: Path, command: str, text: str) -> None:
    async with open_harness(tmp_path, mcp_servers=[on_wire()]) as harness:
        assert text in await harness.ask(command)


async def test_a_session_without_servers_says_so(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert "This session has no MCP servers" in await harness.ask("/mcp")


async def test_without_the_sdk_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    async with open_harness(tmp_path, mcp_servers=[on_wire()]) as harness:
        assert "install `duologue[mcp]`" in await harness.ask("/mcp")
