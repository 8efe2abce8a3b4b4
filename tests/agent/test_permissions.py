"""Asking the user: every kind of answer, what "always" covers, and answers that are none."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.conversation.updates import FileChange
from duologue.protocol.values import PERMISSION_SECONDS, PermissionOption
from duologue.runtime.handlers import Context
from duologue.schema import v1
from duologue.store.memory import MemoryStore
from tests.agent.complete import Knobs
from tests.agent.wire_client import agent_with, editor_for, raw_client


def asking(answers: list[bool], **options: Any) -> Any:
    """Return a handler whose tool call is named after the prompt, and the list of its results."""

    async def ask(turn: Turn[Settings]) -> None:
        async with turn.tool(turn.text, kind="edit") as edit:
            answers.append(await edit.request_permission(**options))
            if answers[-1]:
                await edit.show("done")

    return ask


@pytest.mark.rule(93, 99)
@pytest.mark.parametrize(
    ("kind", "is_allowed", "times"),
    [
        ("allow_once", True, 2),
        ("allow_always", True, 1),
        ("reject_once", False, 2),
        ("reject_always", False, 1),
        (None, False, 2),
    ],
)
async def test_each_kind_of_answer_means_what_it_says(
    tmp_path: Path, kind: str | None, is_allowed: bool, times: int
) -> None:
    answers: list[bool] = []
    async with asyncio.timeout(5), editor_for(agent_with(asking(answers)), tmp_path, judged=True) as editor:
        editor.answer_permission()
        editor.choose = kind
        session = await editor.new()
        for _ in range(2):
            assert (await editor.prompt(session, "Write")).stop_reason == "end_turn"  # the turn goes on
        assert answers == [is_allowed] * 2
        assert len(editor.asked) == times
        went = ["pending", "in_progress", "completed"] if is_allowed else ["pending", "failed"]
        assert [status for index, status in enumerate(editor.statuses) if status != editor.statuses[index - 1]] == [
            *went,
            *went,
        ]

        await editor.prompt(session, "Write something else")
        assert len(editor.asked) == times + 1  # "always" is as wide as the question was
        await editor.prompt(await editor.new(), "Write")
        assert len(editor.asked) == times + 2  # and no wider than the session


async def test_always_covers_what_the_author_says_it_covers_and_ends_with_the_session(tmp_path: Path) -> None:
    answers: list[bool] = []
    agent = agent_with(asking(answers, remember_as="all writing"))
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(5), editor_for(agent, tmp_path) as editor:
        editor.answer_permission()
        editor.choose = "allow_always"
        session = await editor.new()
        await editor.prompt(session, "Write one")
        await editor.prompt(session, "Write two")
        assert len(editor.asked) == 1
        await editor.load(session)
        await editor.prompt(session, "Write one")
        assert len(editor.asked) == 2


@pytest.mark.fault("PRM-17")
async def test_always_covers_exactly_what_the_user_was_shown(tmp_path: Path) -> None:
    """The title stays the same; what is done says the input, the content or the place."""

    async def answer(turn: Turn[Any]) -> None:
        given: dict[str, Any] = json.loads(turn.text)
        places, change, texts = given.pop("places", []), given.pop("change", None), given.pop("texts", [])
        async with turn.tool("Do it", kind="execute", raw_input=given, locations=places) as tool:
            if change is not None:
                await tool.diff("a.txt", *change, status="pending")
            await tool.show(*texts, status="pending")
            await tool.request_permission()

    calls: list[dict[str, Any]] = [
        {"command": "echo one"},
        {"command": "rm -rf /"},
        {"command": "echo one", "texts": ["and more"]},
        {"command": "echo one", "texts": ["and less"]},
        {"command": "echo one", "places": ["a.txt"]},
        {"command": "echo one", "places": ["b.txt"]},
        {"change": [None, "one"]},
        {"change": ["one", None]},
    ]
    async with asyncio.timeout(5), editor_for(agent_with(answer), tmp_path) as editor:
        editor.answer_permission()
        editor.choose = "allow_always"
        session = await editor.new()
        for number, call in enumerate(calls, 1):
            for _ in range(2):
                await editor.prompt(session, json.dumps(call))
                assert len(editor.asked) == number
        await editor.prompt(session, json.dumps({"change": ["one", "two"]}))
        assert len(editor.asked) == len(calls)  # the same file, whatever is written to it


@pytest.mark.rule(98, 99)
@pytest.mark.parametrize(
    "reply",
    [
        {"result": {"outcome": {"outcome": "selected", "optionId": "never offered"}}},
        {"result": {"outcome": {"outcome": "selected"}}},
        {"result": {"outcome": {"outcome": "shrugged", "optionId": "allow_once"}}},
        {"result": {"outcome": "allow_once"}},
        {"result": {}},
        {"result": None},
        {"error": {"code": -32601, "message": "no such method"}},
        {"error": {"code": 400, "message": "?", "data": None}},
    ],
    ids=str,
)
async def test_an_invalid_answer_counts_as_rejected(tmp_path: Path, reply: dict[str, Any]) -> None:
    """In the wild, agents 3: option ids never offered, and errors of every kind."""
    answers: list[bool] = []
    async with asyncio.timeout(5), raw_client(agent_with(asking(answers))) as client:
        await client.initialize()
        opened = await client.ask("new", "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        prompt = {"sessionId": opened["result"]["sessionId"], "prompt": [{"type": "text", "text": "Write"}]}
        client.send(id="p", method="session/prompt", params=prompt)
        message: dict[str, Any] = {}
        while message.get("method") != "session/request_permission":
            message = await client.receive()
        client.send(id=message["id"], **reply)
        client.send(id=message["id"], result={"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        assert (await client.answer_to("p"))["result"] == {"stopReason": "end_turn"}
        assert answers == [False]


async def test_a_permission_request_without_an_answer_is_rejected_and_cancelled(tmp_path: Path) -> None:
    """In the wild, agents 3: clients that answer late, or never."""
    answers: list[bool] = []
    agent = agent_with(asking(answers), permission_timeout=0.05)
    assert agent_with()._permission_timeout == PERMISSION_SECONDS == 600
    async with asyncio.timeout(5), editor_for(agent, tmp_path, judged=True) as editor:
        given_up = asyncio.Event()

        @editor.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def never(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                given_up.set()
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id="allow_once"))

        assert (await editor.prompt(await editor.new(), "Write")).stop_reason == "end_turn"
        assert answers == [False]
        await given_up.wait()


async def test_a_question_says_all_there_is_to_know_about_its_tool_call(tmp_path: Path) -> None:
    options = [
        PermissionOption(option_id="y", name="Do it", kind="allow_once", meta={"o": 1}),
        PermissionOption(option_id="n", name="Don't", kind="reject_once"),
    ]

    async def ask(turn: Turn[Settings]) -> None:
        async with turn.tool("Write", kind="edit", name="write", locations=["a.txt"], raw_input={"x": [1]}) as edit:
            await edit.show(FileChange("a.txt", None, "text"), status="pending")
            await edit.request_permission(options=options, meta={"q": 1})

    async with asyncio.timeout(5), editor_for(agent_with(ask), tmp_path, judged=True) as editor:
        editor.answer_permission()
        await editor.prompt(await editor.new(), "go")
        [asked] = editor.asked
        path = str(tmp_path / "a.txt")
        assert asked.tool_call == v1.PermissionToolCall(
            tool_call_id=editor.of(v1.ToolCall)[0].tool_call_id,
            title="Write",
            kind="edit",
            status="pending",
            name="write",
            content=[v1.Diff(path=path, new_text="text")],
            locations=[v1.ToolCallLocation(path=path)],
            raw_input={"x": [1]},
        )
        assert asked.meta == {"q": 1}
        assert asked.options == [
            v1.PermissionOption(option_id="y", name="Do it", kind="allow_once", meta={"o": 1}),
            v1.PermissionOption(option_id="n", name="Don't", kind="reject_once"),
        ]


@pytest.mark.rule(116, 117)
async def test_leaving_plan_mode_is_a_tool_call_of_kind_switch_mode_with_a_question(tmp_path: Path) -> None:
    leave = [
        PermissionOption(option_id="write", name="Yes, and write", kind="allow_once"),
        PermissionOption(option_id="ask", name="No, keep planning", kind="reject_once"),
    ]

    async def plan(turn: Turn[Knobs]) -> None:
        async with turn.tool("Ready to write", kind="switch_mode") as switch:
            await switch.show("1. Look\n2. Write", status="pending")
            chosen = await switch.request_permission_option(options=leave)
            if chosen is not None:
                await turn.set_option(mode=chosen.option_id)

    async with asyncio.timeout(5), editor_for(agent_with(plan, settings=Knobs), tmp_path, judged=True) as editor:
        editor.answer_permission()
        session = await editor.new()
        editor.choose = "reject_once"
        await editor.prompt(session, "go")
        assert editor.of(v1.CurrentModeUpdate) == []
        editor.choose = "allow_once"
        await editor.prompt(session, "go")
        assert editor.of(v1.CurrentModeUpdate) == [v1.CurrentModeUpdate(current_mode_id="write")]
        assert [call.kind for call in editor.of(v1.ToolCall)] == ["switch_mode"] * 2
