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
from tests.agent.complete import SampleSettings
from tests.agent.wire_client import agent_with, client_for, raw_client


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
    async with asyncio.timeout(60), client_for(agent_with(asking(answers)), tmp_path, validate=True) as client:
        client.answer_permission()
        client.choose = kind
        session = await client.new()
        for _ in range(2):
            assert (await client.prompt(session, "Write")).stop_reason == "end_turn"  # the turn goes on
        assert answers == [is_allowed] * 2
        assert len(client.asked) == times
        went = ["pending", "in_progress", "completed"] if is_allowed else ["pending", "failed"]
        assert [status for index, status in enumerate(client.statuses) if status != client.statuses[index - 1]] == [
            *went,
            *went,
        ]

        await client.prompt(session, "Write something else")
        assert len(client.asked) == times + 1  # "always" is as wide as the question was
        await client.prompt(await client.new(), "Write")
        assert len(client.asked) == times + 2  # and no wider than the session


async def test_always_covers_what_the_author_says_it_covers_and_ends_with_the_session(tmp_path: Path) -> None:
    answers: list[bool] = []
    agent = agent_with(asking(answers, remember_as="all writing"))
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        client.answer_permission()
        client.choose = "allow_always"
        session = await client.new()
        await client.prompt(session, "Write one")
        await client.prompt(session, "Write two")
        assert len(client.asked) == 1
        await client.load(session)
        await client.prompt(session, "Write one")
        assert len(client.asked) == 2


@pytest.mark.fault("PRM-17")
async def test_always_covers_exactly_what_the_user_was_shown(tmp_path: Path) -> None:
    """The title stays the same; what is done says the input, the content or the place."""

    async def answer(turn: Turn[Any]) -> None:
        given: dict[str, Any] = json.loads(turn.text)
        locations, change, texts = given.pop("locations", []), given.pop("change", None), given.pop("texts", [])
        async with turn.tool("Do it", kind="execute", raw_input=given, locations=locations) as tool:
            if change is not None:
                await tool.diff("a.txt", *change, status="pending")
            await tool.show(*texts, status="pending")
            await tool.request_permission()

    calls: list[dict[str, Any]] = [
        {"command": "echo one"},
        {"command": "rm -rf /"},
        {"command": "echo one", "texts": ["and more"]},
        {"command": "echo one", "texts": ["and less"]},
        {"command": "echo one", "locations": ["a.txt"]},
        {"command": "echo one", "locations": ["b.txt"]},
        {"change": [None, "one"]},
        {"change": ["one", None]},
    ]
    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        client.answer_permission()
        client.choose = "allow_always"
        session = await client.new()
        for number, call in enumerate(calls, 1):
            for _ in range(2):
                await client.prompt(session, json.dumps(call))
                assert len(client.asked) == number
        await client.prompt(session, json.dumps({"change": ["one", "two"]}))
        assert len(client.asked) == len(calls)  # the same file, whatever is written to it


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
    async with asyncio.timeout(60), raw_client(agent_with(asking(answers))) as client:
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
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        given_up = asyncio.Event()

        @client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def never(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                given_up.set()
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id="allow_once"))

        assert (await client.prompt(await client.new(), "Write")).stop_reason == "end_turn"
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

    async with asyncio.timeout(60), client_for(agent_with(ask), tmp_path, validate=True) as client:
        client.answer_permission()
        await client.prompt(await client.new(), "go")
        [asked] = client.asked
        path = str(tmp_path / "a.txt")
        assert asked.tool_call == v1.PermissionToolCall(
            tool_call_id=client.of(v1.ToolCall)[0].tool_call_id,
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

    async def plan(turn: Turn[SampleSettings]) -> None:
        async with turn.tool("Ready to write", kind="switch_mode") as switch:
            await switch.show("1. Look\n2. Write", status="pending")
            chosen = await switch.request_permission_option(options=leave)
            if chosen is not None:
                await turn.set_option(mode=chosen.option_id)

    async with (
        asyncio.timeout(60),
        client_for(agent_with(plan, settings=SampleSettings), tmp_path, validate=True) as client,
    ):
        client.answer_permission()
        session = await client.new()
        client.choose = "reject_once"
        await client.prompt(session, "go")
        assert client.of(v1.CurrentModeUpdate) == []
        client.choose = "allow_once"
        await client.prompt(session, "go")
        assert client.of(v1.CurrentModeUpdate) == [v1.CurrentModeUpdate(current_mode_id="write")]
        assert [call.kind for call in client.of(v1.ToolCall)] == ["switch_mode"] * 2
