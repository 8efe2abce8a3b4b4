"""Random conversations, the agent that plays them, and what their client knows of them in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

import hypothesis.strategies as st
import msgspec

from duologue.agent.agent import Agent
from duologue.agent.settings import Settings, choice, toggle
from duologue.agent.turn import Turn
from duologue.client.agent import RemoteAgent
from duologue.client.session import ClientSession
from duologue.conversation.git_patch import git_patch
from duologue.conversation.items import Item, Message, ToolCall
from duologue.conversation.updates import FileChange, ToolContent
from duologue.conversation.work_state import ToolKind
from duologue.errors import DuologueError, ResourceNotFound
from duologue.events import Notice

__all__ = ["FuzzSettings", "Outcome", "conversations", "converse", "leading_agent"]

Act: TypeAlias = tuple[str, Any]
Outcome: TypeAlias = dict[str, Any]

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
lines = st.text("ab\n", max_size=6)
acts: st.SearchStrategy[Act] = st.one_of(
    st.tuples(st.just("say"), words),
    st.tuples(st.just("think"), words),
    st.tuples(st.just("echo"), words),
    st.tuples(st.just("plan"), st.lists(words, max_size=3)),
    st.tuples(st.just("notice"), words),
    st.tuples(st.just("title"), words | st.none()),
    st.tuples(st.just("usage"), st.integers(0, 2**50)),
    st.tuples(st.just("mode"), st.sampled_from(["ask", "code"])),
    st.tuples(st.just("fast"), st.booleans()),
    st.tuples(st.just("compaction"), words),
    st.tuples(st.just("tool"), st.lists(words, max_size=3)),
    st.tuples(st.just("fail"), words),
    st.tuples(st.just("edit"), st.tuples(lines | st.none(), lines).filter(lambda texts: texts[0] != texts[1])),
    st.tuples(st.just("ask"), words),
)
ends: st.SearchStrategy[Act] = st.sampled_from(
    [("end", reason) for reason in ("end_turn", "max_tokens", "max_turn_requests", "refusal", "error", "end_turn")]
)


def _turn_of(some: list[Act], end: Act) -> list[Act]:
    return [*some, end]


conversations = st.lists(st.builds(_turn_of, st.lists(acts, max_size=6), ends), min_size=1, max_size=3)


class FuzzSettings(Settings):
    mode = choice("ask", "code", category="mode")
    fast = toggle(False)


def leading_agent(**options: Any) -> Agent[Any]:
    """Make an agent that performs the actions in its prompts, which are JSON."""
    agent: Agent[Any] = Agent("led", settings=FuzzSettings, **options)

    @agent.on_prompt
    async def play(turn: Turn[Any]) -> str | None:
        for name, value in json.loads(turn.text):
            reason = await _do(turn, name, value)
            if reason is not None:
                return reason
        return None

    return agent


async def _do(turn: Turn[Any], name: str, value: Any) -> str | None:
    match name:
        case "say":
            await turn.say(value)
        case "think":
            await turn.think(value)
        case "echo":
            await turn.send_user_message(value)
        case "plan":
            await turn.plan(*value)
        case "notice":
            await turn.notify(value)
        case "title":
            await turn.set_title(value)
        case "usage":
            await turn.report_usage(used=value, size=2**53, cost=0.5)
        case "mode" | "fast":
            await turn.set_option(**{name: value})
        case "compaction":
            compaction_id = turn.session.new_id("compaction")
            await turn.report_compaction(compaction_id, "in_progress")
            await turn.send_compaction_chunk(compaction_id, value)
            await turn.report_compaction(compaction_id, "completed")
        case "end" if value == "error":
            raise ResourceNotFound("nothing of the kind")
        case "end":
            return str(value)
        case _:
            await _use_tool(turn, name, value)
    return None


async def _use_tool(turn: Turn[Any], name: str, value: Any) -> None:
    kind: ToolKind = "edit" if name == "edit" else "other"
    async with turn.tool(f"To {name}", kind=kind, locations=["a.txt"], raw_input={"value": value}) as tool:
        match name:
            case "tool":
                for text in value:
                    await tool.show(text)
            case "fail":
                await tool.fail(value)
            case "edit":
                await tool.diff("a.txt", *value)
            case _:
                await turn.say(f"{value}: {await tool.request_permission()}")


async def converse(agent: RemoteAgent, conversation: list[list[Act]], cwd: Path) -> Outcome:
    """Have this conversation, then hear it again; what came of both."""
    ends: list[Any] = []
    notices: list[str] = []
    session = await agent.new_session(cwd)
    session.watch(lambda event: notices.append(event.title) if isinstance(event, Notice) else None)
    for prompt in conversation:
        turn = session.prompt(json.dumps(prompt))
        try:
            await turn
        except DuologueError as error:
            ends.append((type(error).__name__, str(error), turn.text))
        else:
            ends.append((turn.stop_reason, turn.text, [call.title for call in turn.tool_calls]))
    live = _known(session)
    await session.aclose()
    again = await agent.load_session(session.id, cwd)
    replayed = _known(again)
    await again.aclose()
    return {"ends": ends, "notices": notices, "live": live, "replayed": replayed}


def _known(session: ClientSession) -> Outcome:
    """Return what a client knows of a session, without random ids."""
    transcript = session.transcript
    return {
        "items": [_plain(item) for item in transcript.items],
        "plans": [msgspec.to_builtins(plan) | {"plan_id": None} for plan in transcript.plans.values()],
        "usage": msgspec.to_builtins(session.usage),
        "title": session.title,
        "settings": {setting.setting_id: setting.value for setting in session.settings},
        "mode": None if session.modes is None else session.modes.current,
    }


def _plain(item: Item) -> Any:
    match item:
        case Message():
            return {**msgspec.to_builtins(item), "message_id": None}
        case ToolCall():
            fields = msgspec.to_builtins(msgspec.structs.replace(item, content=[]))
            return {**fields, "tool_call_id": None, "content": [_part(part) for part in item.content]}
        case _:
            return {**msgspec.to_builtins(item), "compaction_id": None}


def _part(part: ToolContent) -> Any:
    """Version 1 tells a change by its texts, version 2 by a patch; both say the same."""
    if isinstance(part, FileChange):
        return part.path, part.kind, part.patch if part.patch is not None else git_patch(part)
    return msgspec.to_builtins(part)
