"""The modes gate every tool that changes anything: `architect` never, `ask` after permission, `code` at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue.schema import v1
from tests.builtin.harness import open_harness
from tests.mcp.server_processes import small

ACTS = ["/write trace.txt text", "/edit trace.txt old new", "/run touch trace.txt", "/test"]


def prepare(directory: Path, act: str) -> Path:
    trace = directory / "trace.txt"
    if act.startswith("/edit"):
        trace.write_text("old\n")
    (directory / "Makefile").write_text("test:\n\ttouch trace.txt\n")
    return trace


@pytest.mark.parametrize("act", ACTS)
async def test_in_architect_mode_nothing_is_written_or_run_or_asked(tmp_path: Path, act: str) -> None:
    trace = prepare(tmp_path, act)

    async with open_harness(tmp_path, choose="allow_always") as harness:
        await harness.mode("architect")
        await harness.ask(act)

        assert harness.asked == []
        assert harness.status == "failed"
        assert "In architect mode I do not" in harness.shown[-1].content.text
        assert not trace.exists() or trace.read_text() == "old\n"


@pytest.mark.parametrize("act", ACTS)
async def test_in_code_mode_it_is_done_without_a_question(tmp_path: Path, act: str) -> None:
    trace = prepare(tmp_path, act)

    async with open_harness(tmp_path, choose="reject_always") as harness:
        await harness.mode("code")
        await harness.ask(act)

        assert harness.asked == []
        assert harness.status == "completed"
        assert trace.read_text() != "old\n"


async def test_an_always_of_the_ask_mode_opens_no_door_in_architect_mode(tmp_path: Path) -> None:
    async with open_harness(tmp_path, choose="allow_always") as harness:
        await harness.ask("/write trace.txt one")
        await harness.mode("architect")
        await harness.ask("/write trace.txt two")

        assert harness.status == "failed"
        assert (tmp_path / "trace.txt").read_text() == "one\n"


async def test_tools_of_mcp_servers_are_gated_like_our_own(tmp_path: Path) -> None:
    server = small()
    wire = v1.McpServerStdio(name=server.name, command=server.command, args=server.args, env=[])

    async with open_harness(tmp_path, choose="reject_once", mcp_servers=[wire]) as harness:
        assert "I did not call `echo`" in await harness.ask("/mcp small echo")
        assert len(harness.asked) == 1
        await harness.mode("architect")
        assert "I did not call `echo`" in await harness.ask("/mcp small echo")
        assert len(harness.asked) == 1
        await harness.mode("code")
        assert "`echo` answered" in await harness.ask("/mcp small echo")
        assert len(harness.asked) == 1


@pytest.mark.parametrize(
    ("choose", "mode", "status"),
    [
        ("allow_always", "code", "completed"),
        ("allow_once", "ask", "completed"),
        ("reject_once", "architect", "failed"),
        (None, "architect", "failed"),
    ],
)
async def test_leaving_the_plan_asks_and_switches_to_the_chosen_mode(
    tmp_path: Path, choose: str | None, mode: str, status: str
) -> None:
    async with open_harness(tmp_path, choose=choose) as harness:
        await harness.mode("architect")
        await harness.ask("/exit-plan")

        assert harness.of(v1.ToolCall)[0].kind == "switch_mode"
        assert harness.status == status
        changes = [update.current_mode_id for update in harness.of(v1.CurrentModeUpdate)]
        assert changes == ([mode] if mode != "architect" else [])
        assert f"The mode is `{mode}`" in await harness.ask("/mode")


async def test_the_default_mode_asks_and_the_agent_can_switch_it_itself(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert "The mode is `ask`" in await harness.ask("which mode are you in?")
        assert "The mode is `code`" in await harness.ask("/mode code")
        assert [update.current_mode_id for update in harness.of(v1.CurrentModeUpdate)] == ["code"]
        assert "The mode is `architect`" in await harness.ask("switch to architect mode")
        assert "That cannot be set" in await harness.ask("/mode chaos")
