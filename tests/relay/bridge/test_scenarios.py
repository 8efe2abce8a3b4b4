"""The built-in agent's commands look the same through a bridge, as far as both versions can express them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

import duologue
from duologue.agent.agent import Agent
from duologue.builtin.agent import builtin_agent
from duologue.builtin.command_table import COMMANDS
from duologue.client.agent import RemoteAgent
from duologue.client.permissions.policy import Permissions
from duologue.conversation.content import TextContent
from duologue.conversation.git_patch import texts_of_patch
from duologue.conversation.items import ToolCall
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import ContentPart, FileChange, TerminalPart
from duologue.errors import RequestError
from duologue.protocol.values import Elicitation, ElicitationAnswer
from tests.relay.bridge.spans import BOTH_DIRECTIONS, across

NOT_HERE = {"crash", "noise", "cancel-me", "stubborn", "slow", "background", "mcp", "session", "test"}
"""They end or soil a process, wait to be cancelled, or speak of the client itself."""

ARGUMENTS = {
    "write": "a.txt one two",
    "edit": "a.txt one three",
    "read": "a.txt",
    "search": "three",
    "run": "echo hi",
    "steer": "0",
    "stream": "50",
    "tools": "6",
    "big": "100000",
    "withdraw": "0",
    "ask": "form",
    "config": "",
    "error": "-32001",
}
"""The arguments of commands that need some."""

UNKNOWN = ("from_the_future", "telepathy")
"""Members that no schema defines, and that pass nevertheless."""


def scripted_agent(version: int) -> Agent[Any]:
    agent = builtin_agent(unstable=True)
    agent._protocol_versions = (version,)
    return agent


async def answer(question: Elicitation) -> ElicitationAnswer:
    return ElicitationAnswer(action="decline")


async def results(remote: RemoteAgent, cwd: Path) -> list[tuple[str, str, Any]]:
    """Return how each command ends, its messages, and the state of the session after it."""
    seen: list[tuple[str, str, Any]] = []
    await asyncio.to_thread(cwd.mkdir)
    for name in ("write", "edit", *COMMANDS):
        if name in NOT_HERE:
            continue
        async with remote.new_session(cwd) as session:
            prompt = f"/{name} {ARGUMENTS.get(name, '')}".strip()
            try:
                turn = await session.prompt(prompt)
                ended = f"{turn.stop_reason} {_less_marks(turn.text)}"
            except RequestError as error:
                ended = f"{error.code} {error.message.split('(')[0]}"
            seen.append((name, ended, state_of(session.transcript)))
    return seen


def _less_marks(text: str) -> str:
    return " ".join(word for word in text.split() if not word.startswith(("sess_", "msg_")))


def state_of(transcript: Transcript) -> Any:
    """Return what a reader sees, without ids and the output of commands."""
    return (
        [_item(item) for item in transcript.items],
        [msgspec.structs.replace(plan, meta=None) for plan in transcript.plans.values()],
        transcript.commands,
        transcript.settings,
        transcript.modes_shown,
        transcript.title,
        transcript.usage,
        len(transcript.subagents),
    )


def _item(item: Any) -> Any:
    fields = {name: getattr(item, name) for name in item.__struct_fields__ if not name.endswith("_id")}
    if isinstance(item, ToolCall):
        for name in ("content", "permission_content"):
            fields[name] = [shown for part in getattr(item, name) for shown in _part(part)]
        fields["can_cancel"] = False
    return type(item).__name__, fields


def _part(part: Any) -> list[Any]:
    match part:
        case TerminalPart() | ContentPart(content=TextContent(text="" | "```\n```")):
            return []
        case ContentPart(content=TextContent(text=text)) if text.startswith("```\n"):
            return []
        case FileChange():
            old, new = (part.old_text, part.new_text) if part.patch is None else texts_of_patch(part.patch)
            return [(part.path.rpartition("/")[2], old, new)]
        case _:
            return [part]


@pytest.mark.parametrize(("version", "agent_version"), BOTH_DIRECTIONS)
async def test_every_command_of_the_built_in_agent_is_the_same_through_a_bridge(
    version: int, agent_version: int, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"permissions": Permissions.allow_everything(), "on_elicit": answer}
    async with (
        asyncio.timeout(60),
        duologue.connect(
            scripted_agent(agent_version), protocol_versions=(agent_version,), unstable=True, **options
        ) as remote,
    ):
        directly = await results(remote, tmp_path / "work")
    shutil.rmtree(tmp_path / "work")
    async with (
        asyncio.timeout(60),
        across(scripted_agent(agent_version), version, agent_version, but=UNKNOWN, **options) as remote,
    ):
        through = await results(remote, tmp_path / "work")

    different = {one[0]: (one, other) for one, other in zip(directly, through, strict=True) if one != other}
    assert different == {}
