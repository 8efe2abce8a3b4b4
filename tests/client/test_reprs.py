"""How turns, sessions, agents and events look in a debugger, in a log and in a notebook."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn, connect, sync
from duologue.events import Message, Plan, Text, ToolCall
from duologue.sanitize import safe_markdown
from duologue.types import PlanEntry, TextContent


def talker(seen: list[str]) -> Agent[Any]:
    agent: Agent[Any] = Agent("talker", version="1.2")

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> None:
        seen.extend([repr(turn), repr(turn.session)])
        async with turn.tool("Look", kind="read") as tool:
            seen.append(repr(tool))
        await turn.say("**Hello**")

    return agent


async def test_agents_sessions_and_turns_name_what_matters(tmp_path: Path) -> None:
    seen: list[str] = []
    served = talker(seen)
    assert repr(served) == "<Agent 'talker' 1.2>"
    async with asyncio.timeout(60), connect(served) as agent, await agent.new_session(tmp_path) as session:
        assert repr(agent) == "<RemoteAgent talker 1.2, protocol version 1>"
        assert repr(session) == f"<ClientSession {session.id!r} in {tmp_path}, idle>"
        turn = session.prompt("hi")
        assert repr(turn) == "<ClientTurn not ended: '', 0 tool calls>"
        await turn
        assert repr(turn) == "<ClientTurn end_turn: '**Hello**', 1 tool calls>"
        assert seen == [
            f"<Turn of session {session.id!r}: 'hi'>",
            f"<Session {session.id!r} in {tmp_path}>",
            "<ToolCallHandle 'Look' (read), pending>",
        ]
    assert "closed" in repr(session)
    assert "closed" in repr(agent)


def test_the_blocking_classes_have_names_of_their_own_and_notebooks_show_markdown(tmp_path: Path) -> None:
    with sync.connect(talker([])) as agent, agent.new_session(tmp_path) as session:
        turn = session.prompt("hi").wait()
        assert repr(agent).startswith("<BlockingAgent talker")
        assert repr(session).startswith("<BlockingSession ")
        assert repr(turn).startswith("<BlockingTurn end_turn")
        assert turn._repr_markdown_() == "**Hello**"
        assert session._repr_markdown_() == "**user**\n\nhi\n\n**agent**\n\n**Hello**"


def test_an_event_shows_what_is_set_and_not_the_frame_it_came_in() -> None:
    assert repr(Text(text="hi", raw=b"{...}")) == "Text(text='hi')"
    call = ToolCall(tool_call_id="c1", title="Read", status="completed", raw=b"{}")
    assert repr(call) == "ToolCall(tool_call_id='c1', title='Read', status='completed')"
    assert len(repr(Text(text="x" * 10_000))) < 200


def test_a_plan_and_a_message_are_markdown_in_a_notebook() -> None:
    plan = Plan(entries=[PlanEntry("Read", "completed"), PlanEntry("Write")])
    assert plan._repr_markdown_() == "- [x] Read\n- [ ] Write"
    assert Message(role="agent", content=[TextContent("# Title")])._repr_markdown_() == "# Title"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>run()</script>", "&lt;script>run()&lt;/script>"),
        ("![x](https://host/?secret)", "[x](https://host/?secret)"),
        ("[x](JavaScript:run())", "[x](JavaScript :run())"),
        ("[x](java&#115;cript:run())", "[x](java&amp;#115;cript:run())"),
        ("a < b and `c`", "a &lt; b and `c`"),
    ],
)
def test_markdown_of_an_agent_cannot_act_in_a_notebook(text: str, shown: str) -> None:
    assert safe_markdown(text) == shown
