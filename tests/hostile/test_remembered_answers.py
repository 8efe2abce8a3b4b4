"""A remembered allow covers exactly what was shown: whatever an agent changes needs permission again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.client.connect import connect
from duologue.client.permissions import details as remainder
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from tests.client.scripted_agent import Json, ScriptedAgent, result

pytestmark = [pytest.mark.timeout(60), pytest.mark.fault("PRM-17")]


def text(value: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": value}}


def resource(value: str) -> Json:
    return {"type": "content", "content": {"type": "resource", "resource": {"uri": "file:///x", "text": value}}}


async def permission_requests(cwd: Path, *calls: Json) -> list[PermissionRequest]:
    """Return the requests that reach a user who allows and remembers the first, and rejects all others."""
    asked: list[PermissionRequest] = []

    async def user(question: PermissionRequest) -> None:
        asked.append(question)
        if len(asked) == 1:
            question.allow(remember="session")
        else:
            question.reject()

    async def go(params: Json) -> Json:
        for number, call in enumerate(calls):
            answer = await agent.ask_permission({"toolCallId": f"t{number}", "status": "pending", **call})
            allowed = answer["result"]["outcome"]["optionId"] == "o3"
            assert allowed is (len(asked) == 1), "allowed without having been asked, or refused what was remembered"
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=go)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=Permissions(on_request=user)) as remote,
        remote.new_session(cwd) as session,
    ):
        await session.prompt("go")
    return asked


async def test_a_rule_is_offered_only_where_the_command_is_all_that_is_shown(tmp_path: Path) -> None:
    log = {"title": "Look", "kind": "execute", "rawInput": {"command": "git log -1"}}
    alone, *others = await permission_requests(tmp_path, log, {**log, "content": [text("and more")]})

    assert alone.offered_rules == ["git log -1", "git log *"]
    assert [each.offered_rules for each in others] == [[]]


RUN: Json = {"title": "Run a command", "kind": "execute"}
CHANGED: dict[str, tuple[Json, Json]] = {
    "the content": ({**RUN, "content": [text("echo one")]}, {**RUN, "content": [text("rm -rf /")]}),
    "a second part": (
        {**RUN, "content": [text("echo one")]},
        {**RUN, "content": [text("echo one"), text("; rm -rf /")]},
    ),
    "a resource": ({**RUN, "content": [resource("echo one")]}, {**RUN, "content": [resource("rm -rf /")]}),
    "content in addition to a command": (
        {**RUN, "rawInput": {"command": "bash"}, "content": [text("echo one")]},
        {**RUN, "rawInput": {"command": "bash"}, "content": [text("rm -rf /")]},
    ),
    "content where there was none": (
        {**RUN, "rawInput": {"command": "bash"}},
        {**RUN, "rawInput": {"command": "bash"}, "content": [text("rm -rf /")]},
    ),
    "an unknown key": (
        {**RUN, "rawInput": {"command": "python", "code": "print(1)"}},
        {**RUN, "rawInput": {"command": "python", "code": "import os; os.system('rm -rf /')"}},
    ),
    "a key that is new": (
        {**RUN, "rawInput": {"command": "python"}},
        {**RUN, "rawInput": {"command": "python", "stdin": "import os"}},
    ),
    "arguments as a text": (
        {**RUN, "rawInput": {"command": "git", "args": "status"}},
        {**RUN, "rawInput": {"command": "git", "args": "push --force"}},
    ),
    "arguments of a list": (
        {**RUN, "rawInput": {"command": ["git"], "args": ["status"]}},
        {**RUN, "rawInput": {"command": ["git"], "args": ["push"]}},
    ),
    "arguments by another name": (
        {**RUN, "rawInput": {"command": "git", "arguments": ["status"]}},
        {**RUN, "rawInput": {"command": "git", "arguments": ["push"]}},
    ),
    "a directory that is no path": (
        {**RUN, "rawInput": {"command": "make", "cwd": "ssh://safe/x"}},
        {**RUN, "rawInput": {"command": "make", "cwd": "ssh://evil/x"}},
    ),
    "variables as a list": (
        {**RUN, "rawInput": {"command": "make", "env": [{"name": "A", "value": "1"}]}},
        {**RUN, "rawInput": {"command": "make", "env": [{"name": "A", "value": "2"}]}},
    ),
    "a path in addition to a command": (
        {"title": "View", "kind": "other", "rawInput": {"command": "view", "path": "/a"}},
        {"title": "View", "kind": "other", "rawInput": {"command": "view", "path": "/etc/shadow"}},
    ),
    "where a file is moved to": (
        {"title": "Move", "kind": "move", "locations": [{"path": "/a"}], "rawInput": {"from": "/a", "to": "/b"}},
        {"title": "Move", "kind": "move", "locations": [{"path": "/a"}], "rawInput": {"from": "/a", "to": "/etc/x"}},
    ),
    "text in addition to a file": (
        {"title": "Edit", "kind": "edit", "locations": [{"path": "/a"}], "content": [text("one")]},
        {"title": "Edit", "kind": "edit", "locations": [{"path": "/a"}], "content": [text("and run rm -rf /")]},
    ),
    "input that is no object": (
        {"title": "Do", "kind": "other", "rawInput": "echo one"},
        {"title": "Do", "kind": "other", "rawInput": "rm -rf /"},
    ),
    "the title": ({**RUN, "content": [text("x")]}, {**RUN, "content": [text("x")], "title": "rm -rf /"}),
    "locations of a command": (
        {**RUN, "rawInput": {"command": "make"}, "locations": [{"path": "/a"}]},
        {**RUN, "rawInput": {"command": "make"}, "locations": [{"path": "/b"}]},
    ),
}


@pytest.mark.parametrize(("first", "second"), CHANGED.values(), ids=CHANGED)
async def test_a_call_that_shows_something_else_needs_permission_again(
    tmp_path: Path, first: Json, second: Json
) -> None:
    asked = await permission_requests(tmp_path, first, first, second)

    assert len(asked) == 2
    assert (asked[0].action_lines, asked[0].details, asked[0].title) != (
        asked[1].action_lines,
        asked[1].details,
        asked[1].title,
    )


DIFF: Json = {"type": "diff", "path": "/a", "oldText": "x", "newText": "y"}
SAME: dict[str, tuple[Json, Json]] = {
    "another description of a command": (
        {**RUN, "rawInput": {"command": "make", "description": "Builds it"}},
        {**RUN, "title": "Build", "rawInput": {"command": "make", "description": "Builds it again", "timeout": 5}},
    ),
    "another change of a file": (
        {"title": "Edit a", "kind": "edit", "content": [DIFF], "rawInput": {"file_path": "/a", "new_string": "y"}},
        {
            "title": "Edit a again",
            "kind": "edit",
            "content": [{**DIFF, "newText": "z"}],
            "rawInput": {"file_path": "/a", "new_string": "z"},
        },
    ),
}


@pytest.mark.parametrize(("first", "second"), SAME.values(), ids=SAME)
async def test_a_call_with_the_same_effects_needs_no_second_permission(
    tmp_path: Path, first: Json, second: Json
) -> None:
    assert len(await permission_requests(tmp_path, first, second)) == 1


UNSPECIFIC: dict[str, Json] = {
    "only a title": RUN,
    "only a name": {**RUN, "name": "shell"},
    "input without anything in it": {**RUN, "rawInput": {"command": "", "cwd": None}},
    "only a description": {**RUN, "rawInput": {"description": "Runs it"}},
    "an image": {
        **RUN,
        "content": [{"type": "content", "content": {"type": "image", "data": "", "mimeType": "image/png"}}],
    },
    "more files than are shown": {
        "title": "Edit",
        "kind": "edit",
        "locations": [{"path": f"/{n}"} for n in range(300)],
    },
    "more text than is shown": {**RUN, "content": [text("x" * (remainder.MOST_CHARACTERS + 1))]},
}


@pytest.mark.parametrize("call", UNSPECIFIC.values(), ids=UNSPECIFIC)
async def test_where_nothing_specific_was_shown_nothing_is_remembered(tmp_path: Path, call: Json) -> None:
    asked = await permission_requests(tmp_path, call, call)

    assert len(asked) == 2
    assert not asked[0].can_be_remembered


@pytest.mark.parametrize("call", UNSPECIFIC.values(), ids=UNSPECIFIC)
async def test_an_always_answer_to_an_unspecific_request_is_not_remembered_either(tmp_path: Path, call: Json) -> None:
    asked: list[PermissionRequest] = []

    async def user(question: PermissionRequest) -> None:
        asked.append(question)
        question.choose("o1")

    async def go(params: Json) -> Json:
        for _ in range(2):
            await agent.ask_permission({"toolCallId": "t", **call})
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=go)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=Permissions(on_request=user)) as remote,
        remote.new_session(tmp_path) as session,
    ):
        await session.prompt("go")
    assert len(asked) == 2


async def test_a_remembered_rejection_covers_the_same_effect_whatever_is_shown_with_it(tmp_path: Path) -> None:
    words: list[Any] = []

    async def user(question: PermissionRequest) -> None:
        words.append(question.details)
        question.reject(remember="session")

    async def go(params: Json) -> Json:
        for content in ("one", "two"):
            call = {"toolCallId": "t", **RUN, "rawInput": {"command": "make"}, "content": [text(content)]}
            assert (await agent.ask_permission(call))["result"]["outcome"]["optionId"] == "o0"
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=go)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=Permissions(on_request=user)) as remote,
        remote.new_session(tmp_path) as session,
    ):
        await session.prompt("go")
    assert words == [["one"]]
