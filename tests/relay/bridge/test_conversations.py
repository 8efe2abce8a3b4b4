"""Random conversations look the same through a bridge as without one, as far as both versions can express them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

import duologue
from duologue.agent.agent import Agent
from duologue.agent.settings import Settings, choice
from duologue.agent.turn import Turn
from duologue.client.agent import RemoteAgent
from duologue.client.permissions.policy import Permissions
from duologue.conversation import updates as u
from duologue.conversation.content import Content, ImageContent, ResourceLink, TextContent
from duologue.conversation.session_setup import SessionInfo
from duologue.errors import RequestError
from duologue.store.memory import MemoryStore
from tests.relay.bridge.spans import BOTH_DIRECTIONS, across
from tests.relay.bridge.test_scenarios import state_of

ids = st.sampled_from(["a", "b"])
words = st.sampled_from(["a", "ü", "two words", "`x`"])
blocks: st.SearchStrategy[Content] = st.one_of(
    words.map(TextContent), st.just(ImageContent("aGk=", "image/png")), st.just(ResourceLink("file:///a", "a", size=3))
)
parts: st.SearchStrategy[list[u.ToolContent]] = st.lists(
    st.one_of(
        st.builds(u.ContentPart, blocks),
        st.builds(u.FileChange, st.just("/w/a"), st.just("old\n"), st.sampled_from(["new\n", "newer\n"])),
    ),
    max_size=2,
)
metas = st.sampled_from([UNSET, {"k": 1}])
acts: st.SearchStrategy[u.Update] = st.one_of(
    st.builds(u.MessageChunk, role=st.sampled_from(["agent", "thought"]), content=blocks, message_id=ids),
    st.builds(u.MessageChunk, role=st.just("agent"), content=blocks, meta=metas),
    st.builds(
        u.ToolCallUpdate,
        tool_call_id=ids,
        title=words,
        kind=st.sampled_from([UNSET, "edit"]),
        status=st.sampled_from([UNSET, "pending", "in_progress", "completed", "failed"]),
        content=st.one_of(st.just(UNSET), parts),
        locations=st.sampled_from([UNSET, [u.Location("/a", 3)]]),
        raw_input=st.sampled_from([UNSET, {"a": 1}]),
        meta=metas,
    ),
    st.builds(u.PlanUpdate, entries=st.lists(st.builds(u.PlanEntry, words), max_size=2)),
    st.builds(u.PlanUpdate, plan_id=ids, markdown=words),
    st.builds(u.PlanRemovedUpdate, plan_id=ids),
    st.builds(u.CommandsUpdate, commands=st.lists(st.builds(u.AvailableCommand, words, words, words), max_size=2)),
    st.builds(u.InfoUpdate, title=st.sampled_from(["t", None])),
    st.builds(u.UsageUpdate, used=st.integers(0, 9), size=st.just(9), cost=st.just(0.5), currency=st.just("EUR")),
    st.builds(u.CompactionUpdate, compaction_id=ids, status=st.just("in_progress"), summary=st.just(UNSET)),
    st.builds(u.CompactionChunk, compaction_id=ids, content=blocks),
    st.builds(u.SubagentUpdate, session_id=ids, title=words),
)
stops = st.sampled_from([None, "refusal", "max_tokens"])


class Script:
    """The actions of an agent in each turn, and of its user before it."""

    def __init__(self, updates: list[u.Update], stop: str | None, mode: str | None, asks: bool, fails: bool) -> None:
        self.updates = updates
        self.stop = stop
        self.mode = mode
        self.asks = asks
        self.fails = fails


scripts = st.builds(
    Script,
    st.lists(acts, max_size=8),
    stops,
    st.sampled_from([None, "ask", "code"]),
    asks=st.booleans(),
    fails=st.booleans(),
)


class BridgeSettings(Settings):
    mode = choice("ask", "code", category="mode")


def playing(version: int, turns: list[Script]) -> Agent[Any]:
    """Return an agent that plays these turns, one after the other."""
    agent: Agent[Any] = Agent("far", protocol_versions=(version,), settings=BridgeSettings, unstable=True)
    agent.persist_sessions(MemoryStore())
    left = iter(turns)

    @agent.on_prompt
    async def play(turn: Turn[Any]) -> str | None:
        script = next(left)
        for update in script.updates:
            await turn.session.update(update)
        if script.asks:
            async with turn.tool("Dig") as tool:
                await turn.say(f"allowed: {await tool.request_permission()}")
        await turn.session.set_option(mode="code" if turn.session.settings.mode == "ask" else "ask")
        if script.fails:
            raise RequestError("as it was written", code=-32042, data={"at": len(script.updates)})
        return script.stop

    return agent


async def transcripts(remote: RemoteAgent, turns: list[Script]) -> Any:
    """Return everything a user sees of these turns, and of the session when it is loaded again."""
    seen: list[Any] = []
    async with remote.new_session("/tmp") as session:
        for script in turns:
            if script.mode is not None:
                await session.set_mode(script.mode)
            try:
                turn = await session.prompt("go on")
                seen.append((turn.stop_reason, turn.text))
            except RequestError as error:
                seen.append((error.code, error.message, error.data))
            seen.append(state_of(session.transcript))
    return seen


@pytest.mark.parametrize(("version", "agent_version"), BOTH_DIRECTIONS)
def test_a_conversation_is_the_same_with_and_without_a_bridge(
    version: int, agent_version: int, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    @settings(
        max_examples=25 * chaos_factor, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.lists(scripts, min_size=1, max_size=3))
    def compare(turns: list[Script]) -> None:
        directly, through = asyncio.run(_both(turns, version, agent_version))
        assert directly == through

    compare()
    record_property("count", 25 * chaos_factor)


async def _both(turns: list[Script], version: int, agent_version: int) -> tuple[Any, Any]:
    permissions = Permissions.allow_everything()
    agent = playing(agent_version, turns)
    async with (
        asyncio.timeout(60),
        duologue.connect(agent, protocol_versions=(agent_version,), permissions=permissions, unstable=True) as remote,
    ):
        directly = await transcripts(remote, turns)
    async with asyncio.timeout(60), across(playing(agent_version, turns), version, agent_version) as remote:
        through = await transcripts(remote, turns)
    return directly, through


@pytest.mark.parametrize(("version", "agent_version"), BOTH_DIRECTIONS)
async def test_sessions_are_listed_loaded_and_deleted_through_a_bridge(version: int, agent_version: int) -> None:
    turns = [Script([u.MessageChunk(role="agent", content=TextContent("hello"))], None, None, asks=False, fails=False)]
    async with asyncio.timeout(60), across(playing(agent_version, turns), version, agent_version) as remote:
        async with remote.new_session("/tmp") as session:
            await session.prompt("hi")
        infos: list[SessionInfo] = await remote.list_sessions()
        loaded = await remote.load_session(session.id, "/tmp")
        messages = [(message.role, message.text) for message in loaded.transcript.messages]
        await loaded.aclose()
        resumed = await remote.resume_session(session.id, "/tmp")
        silence = len(resumed.transcript)
        forked = await resumed.fork()
        await forked.aclose()
        await resumed.aclose()
        for info in await remote.list_sessions():
            await remote.delete_session(info.session_id)
        rest = await remote.list_sessions()

    assert [info.session_id for info in infos] == [session.id]
    assert messages == [("user", "hi"), ("agent", "hello")]
    assert (silence, rest) == (0, [])
