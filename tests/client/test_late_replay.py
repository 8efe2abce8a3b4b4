"""Agents that repeat an earlier session after they have answered the request that loads it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duologue.client import quirks as replay
from duologue.client.connect import connect
from duologue.client.quirks import QUIRKS
from duologue.events import Event, Text
from tests.client.scripted_agent import Json, ScriptedAgent, result, text_chunk

pytestmark = [pytest.mark.timeout(30), pytest.mark.fault("ORD-21")]

EVER = 1000.0


class Late(ScriptedAgent):
    """Answers `session/load` and only then repeats the session, word by word with a short pause between them."""

    def __init__(self, name: str = "gemini-cli", words: str = "it was long ago", pause: float = 0.05) -> None:
        super().__init__({"loadSession": True}, prompt=self._prompt, agentInfo={"name": name, "version": "0.61"})
        self.answers["session/load"] = self._load
        self._words = words.split()
        self._pause = pause

    async def _load(self, params: Json) -> Json:
        loop = asyncio.get_running_loop()
        for number, word in enumerate(self._words, 1):
            loop.call_later(number * self._pause, self.update, text_chunk(word))
        return result()

    async def _prompt(self, params: Json) -> Json:
        self.update(text_chunk("new"))
        return result(stopReason="end_turn")


def test_agents_that_replay_late_are_known_by_name() -> None:
    assert [name for name, quirks in QUIRKS.items() if quirks.replays_late] == ["gemini-cli"]


async def test_a_replay_after_the_load_response_is_the_past_and_not_part_of_the_next_turn(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(Late()) as agent, agent.load_session("s1", tmp_path) as session:
        assert session.last_message_text() == "itwaslongago"
        assert not session._prompts.is_prompted
        turn = await session.prompt("go on")
    assert turn.text == "new"
    assert session._prompts.is_prompted


async def test_the_wait_for_a_replay_that_never_pauses_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "QUIET_SECONDS", EVER)
    async with asyncio.timeout(60), connect(Late()) as agent, agent.load_session("s1", tmp_path) as session:
        assert (await session.prompt("go on")).text == "new"


@pytest.fixture
def no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every wait for a late replay longer than the test."""
    monkeypatch.setattr(replay, "QUIET_SECONDS", EVER)
    monkeypatch.setattr(replay, "MAX_SECONDS", EVER)


@pytest.mark.usefixtures("no_end")
async def test_other_agents_are_not_waited_for(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(Late("prompt-agent")) as agent:
        async with agent.load_session("s1", tmp_path) as session:
            assert session.last_message_text() == ""


@pytest.mark.usefixtures("no_end")
async def test_a_replay_before_the_load_response_is_complete(tmp_path: Path) -> None:
    async def load(params: Json) -> Json:
        agent.update(text_chunk("before"))
        return result()

    agent = Late()
    agent.answers["session/load"] = load
    async with asyncio.timeout(60), connect(agent) as remote, remote.load_session("s1", tmp_path) as session:
        assert session.last_message_text() == "before"


async def test_a_late_replay_after_a_restart_is_not_applied_twice(tmp_path: Path) -> None:
    agents: list[Late] = []

    class Exiting(Late):
        async def _prompt(self, params: Json) -> Json:
            if len(agents) == 1:
                await self.transport.__aexit__(None, None, None)
                await asyncio.Event().wait()
            return await super()._prompt(params)

        async def serve(self, transport: object) -> None:
            agents.append(self)
            await super().serve(transport)  # type: ignore[arg-type] # a transport in front

    seen: list[str] = []

    def watch(event: Event) -> None:
        if isinstance(event, Text):
            seen.append(event.text)

    async with asyncio.timeout(60), connect(Exiting(), restart=True) as remote, remote.new_session(tmp_path) as session:
        session.watch(watch)
        with pytest.raises(Exception, match="closed"):
            await session.prompt("die")
        assert (await session.prompt("go on")).text == "new"
    assert seen == ["new"]
