"""The usage of stored sessions: of each turn, summed up, also after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn, connect
from duologue.conversation.content import TextContent
from duologue.conversation.session_setup import SessionInfo
from duologue.conversation.updates import UsageUpdate
from duologue.store.base import Store
from duologue.store.records import Record
from duologue.store.sqlite.store import SqliteStore
from duologue.store.usage_reader import _count
from duologue.types import TokenUsage
from duologue.usage.counter import UsageCounter

pytestmark = pytest.mark.timeout(30)


async def test_the_tokens_and_the_cost_of_the_turns_add_up(store: Store) -> None:
    async with await store.create(SessionInfo(session_id="s", cwd="/tmp")) as log:
        for cost, usage in (
            (0.5, TokenUsage(total=3, input=1, output=2)),
            (0.75, TokenUsage(total=7, input=3, output=4)),
        ):
            log.begin_turn([TextContent("go")])
            log.append(UsageUpdate(used=3, size=9, cost=cost, currency="EUR"))
            await log.end_turn("end_turn", usage)
        found = await store.usage("s")
        assert (found.total, found.turns, found.cost, found.provenance) == (10, 2, 0.75, "reported_per_turn")
        log.begin_turn([TextContent("go")])
        await log.end_turn("cancelled")

    assert (await store.usage("s")).provenance == "partial"


async def test_the_tokens_of_a_turn_are_stored_with_its_end(tmp_path: Path) -> None:
    agent = Agent("notes", unstable={"usage"}, store=tmp_path)

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> None:
        turn.tokens = TokenUsage(total=3, input=1, output=2)
        if turn.text == "fail":
            raise RuntimeError("the model is gone")

    async with asyncio.timeout(60), connect(agent) as remote:
        session = await remote.new_session(tmp_path)
        await session.prompt("go")
        with pytest.raises(Exception, match="RuntimeError"):
            await session.prompt("fail")
        await session.aclose()
    async with SqliteStore(tmp_path) as store:
        usage = await store.usage(session.id)

    assert (usage.total, usage.turns, usage.provenance) == (6, 2, "reported_per_turn")


def test_records_of_a_newer_version_are_left_out() -> None:
    counter = UsageCounter()
    _count(counter, Record(1, "end", "turn 1", b'{"stop_reason": 7}'))
    _count(counter, Record(2, "later", None, b"{}"))

    assert counter.usage.turns == 0
