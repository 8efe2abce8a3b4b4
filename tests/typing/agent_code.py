"""Types of the agent side as users see them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

import duologue
from duologue import Agent, Session, Settings, Turn, choice, toggle
from duologue.types import CommandResult, MemoryStore, PermissionOption, ToolCallHandle


class NotesSettings(Settings):
    mode = choice("ask", "write", category="mode")
    deep = toggle(False)


@dataclass
class Release:
    version: str


agent = Agent("notes", settings=NotesSettings, store="~/notes")
plain: Agent[Settings] = Agent("plain", store=MemoryStore())
bare = Agent("bare")
assert_type(agent, Agent[NotesSettings])


@agent.on_prompt
async def answer(turn: Turn[NotesSettings]) -> None:
    assert_type(turn.settings, NotesSettings)
    assert_type(turn.settings.mode, str)
    assert_type(turn.settings.deep, bool)
    assert_type(turn.session, Session[NotesSettings])
    assert_type(turn.cwd, Path)
    assert_type(await turn.files.read("notes.md"), str)
    async with turn.tool("Edit", kind="edit") as edit:
        assert_type(edit, ToolCallHandle)
        assert_type(await edit.request_permission(), bool)
        assert_type(await edit.request_permission_option(), PermissionOption | None)
    assert_type(await turn.run("pytest", "-q"), CommandResult)
    assert_type(await turn.elicit(Release, "Which?"), Release | None)
    assert_type(await turn.elicit_url("Log in", "https://example.com"), bool)


@agent.on_prompt
async def answer_without_type_arguments(turn: Turn) -> str:
    """`Turn` alone is `Turn[Any]`, on Python 3.11 too."""
    assert_type(turn, Turn[Any])
    return "end_turn"


@bare.on_prompt
async def answer_of_a_bare_agent(turn: Turn) -> None:
    """`Agent("x")` needs no annotation."""
    await turn.say(turn.text)


@plain.on_open
async def opened(session: Session) -> None:
    assert_type(session, Session[Any])
    await session.set_option(mode="write")


async def generator(prompt: str) -> AsyncIterator[str]:
    yield prompt


class OtherSettings(Settings):
    other = toggle(True)


async def mistakes(turn: Turn[NotesSettings]) -> None:
    turn.settings.unknown  # type: ignore[attr-defined]  # noqa: B018
    await turn.say(1)  # type: ignore[arg-type]
    await turn.report_usage(1, 2)  # type: ignore[call-arg]
    await turn.tool("x").update(status="done")  # type: ignore[arg-type]
    await turn.set_option(deep=1.5)  # type: ignore[arg-type]
    turn.tool("x", kind="write")  # type: ignore[arg-type]
    await turn.notify("x", severity="warn")  # type: ignore[arg-type]
    turn.say("x")  # type: ignore[unused-coroutine]
    Agent("x", versions=(1, 2))  # type: ignore[call-arg]
    Agent("x", accepts=("video",))  # type: ignore[arg-type]


@agent.on_prompt  # type: ignore[arg-type]
async def wrong_settings(turn: Turn[OtherSettings]) -> None: ...


def run_all() -> None:
    duologue.run(generator)
    duologue.run(agent)
    agent.run()
    agent.run(ws=8000, token="secret")
    agent.cli()
