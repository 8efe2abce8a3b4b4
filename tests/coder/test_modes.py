"""Modes decide which tools the model gets, and hold when they change in the middle of a turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duologue.client.permissions.request import PermissionRequest
from duologue.events import ModeChanged, Plan
from duologue.testing import ModelServer, ModelTurn, RequestPattern, tool_call
from tests.coder.client import User, coding

WRITE = tool_call("write_file", path="made.txt", content="made\n")
CHANGING = ["write_file", "edit_file", "create_directory", "run_command"]


class WaitingUser(User):
    """A user who answers when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.was_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def decide(self, request: PermissionRequest) -> None:
        self.was_asked.set()
        await self.may_answer.wait()
        await super().decide(request)


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_a_reading_mode_offers_no_tool_that_changes_anything(project: Path, mode: str) -> None:
    script = [
        ModelTurn(
            tools=[tool_call("search_files", pattern="def add"), WRITE],
            fault="unknown_tool",
            expect=RequestPattern(tools=["read_file", "search_files"], tools_absent=CHANGING, system=f"{mode} mode"),
        ),
        ModelTurn("I only read.", expect=RequestPattern(tool_result=["calc.py:1:def add", "Unknown tool name"])),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server) as session:
        await session.set_mode(mode)
        await session.prompt("write something")
        server.check()

    assert not (project / "made.txt").exists()


async def test_the_mode_that_the_user_chooses_in_the_middle_of_a_turn_holds_at_once(project: Path) -> None:
    script = [
        ModelTurn(tools=[WRITE], hold_after=0, expect=RequestPattern(tools=CHANGING)),
        ModelTurn("I cannot.", expect=RequestPattern(tool_result="reading only", tools_absent=CHANGING)),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server) as session:
        async with session.prompt("write it") as turn:
            await server.held()
            await session.set_mode("ask")
            await server.release()
            await turn
        server.check()

    assert not (project / "made.txt").exists()


async def test_a_mode_that_is_chosen_while_the_user_is_asked_holds_for_what_was_asked(project: Path) -> None:
    user = WaitingUser()
    script = [
        ModelTurn(tools=[tool_call("run_command", command="touch made.txt")]),
        ModelTurn("I cannot.", expect=RequestPattern(tool_result="reading only", tools_absent=CHANGING)),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, user) as session:
        async with session.prompt("make it") as turn:
            await user.was_asked.wait()
            await session.set_mode("ask")
            user.may_answer.set()
            await turn
        server.check()

    assert not (project / "made.txt").exists()


async def test_plan_mode_writes_a_plan_and_begins_when_the_user_agrees(project: Path) -> None:
    user = User(["edit"])
    steps = [{"content": "Write it", "status": "in_progress"}, {"content": "Check it"}]
    script = [
        ModelTurn(
            tools=[tool_call("write_plan", items=steps)],
            expect=RequestPattern(tools=["write_plan", "leave_plan_mode"], tools_absent=CHANGING),
        ),
        ModelTurn(tools=[tool_call("leave_plan_mode", plan="1. Write it\n2. Check it")]),
        ModelTurn(tools=[WRITE], expect=RequestPattern(tools=CHANGING, tools_absent=["leave_plan_mode"])),
        ModelTurn("Done."),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, user) as session:
        await session.set_mode("plan")
        async with session.prompt("plan it") as turn:
            events = [event async for event in turn]
        server.check()

    (plan,) = [event for event in events if isinstance(event, Plan)]
    assert [(entry.content, entry.status) for entry in plan.entries] == [
        ("Write it", "in_progress"),
        ("Check it", "pending"),
    ]
    assert user.titles == ["Begin with the plan?"]
    assert [call.kind for call in session.transcript.tool_calls] == ["think", "switch_mode", "edit"]
    assert "1. Write it" in str(user.requests[0].tool.content)
    assert [event.mode_id for event in events if isinstance(event, ModeChanged)] == ["edit"]
    assert (project / "made.txt").read_text() == "made\n"


async def test_plan_mode_stays_if_the_user_rejects_the_plan(project: Path) -> None:
    user = User(["reject"])
    script = [
        ModelTurn(tools=[tool_call("leave_plan_mode", plan="Delete everything")]),
        ModelTurn("What is missing?", expect=RequestPattern(tool_result="keep planning", tools_absent=CHANGING)),
    ]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, user) as session:
        await session.set_mode("plan")
        await session.prompt("plan it")
        server.check()

    assert session.modes is not None
    assert session.modes.current == "plan"


async def test_the_rules_of_the_user_decide_in_auto_mode(project: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[permissions]\nedit = "ask"\n[permissions.execute]\n"git status" = "allow"\n"git push" = "reject"\n'
    )
    rules.chmod(0o600)
    user = User(["reject_once"])
    script = [
        ModelTurn(tools=[WRITE]),
        ModelTurn(tools=[tool_call("run_command", command="git push")]),
        ModelTurn("Neither.", expect=RequestPattern(tool_result="did not permit")),
    ]
    async with (
        asyncio.timeout(120),
        ModelServer(script) as server,
        coding(project, server, user, edit="ask", rules=(rules,)) as session,
    ):
        await session.set_mode("auto")
        await session.prompt("write and push")
        server.check()

    assert user.titles == ["Write made.txt"]
    assert not (project / "made.txt").exists()
