"""Steering from the client's side: every spelling of the wire, the fallbacks, and exactly one outcome for each text."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn, sync
from duologue.client.connect import connect
from duologue.client.recorded_sessions import recorded_sessions
from duologue.client.supervisor import Restart
from duologue.client.turn import ClientTurn
from duologue.errors import ConnectionLost, InvalidParams, RequestError
from duologue.transports.base import Transport
from duologue.types import ResourceLink
from tests.client.scripted_agent import Json, ScriptedAgent, error, result, text_chunk

pytestmark = pytest.mark.timeout(60)

VECTORS: list[Json] = json.loads(Path(__file__).with_name("steering_vectors.json").read_text())
CASES = [
    pytest.param(vector, case, id=f"{vector['name']}: {case['outcome']}, {case['reason']}")
    for vector in VECTORS
    for case in vector["answers"]
]
STEERS: Json = {"_meta": {"steering": {"supported": True}}}


def user_messages(turn: ClientTurn) -> list[str]:
    return [message.text for message in turn.session.transcript.messages if message.role == "user"]


class SteeredAgent(ScriptedAgent):
    """A scripted agent whose turn ends when the test says so."""

    def __init__(self, **welcome: Any) -> None:
        super().__init__(prompt=self._work)
        self.welcome |= welcome
        self.ends = asyncio.Event()
        self.before: Json | None = None

    async def _work(self, params: Json) -> Json:
        if self.before is not None:
            self.update(self.before)
        await self.ends.wait()
        return result(stopReason="end_turn")


class SteeredV2Agent(SteeredAgent):
    """The same in version 2."""

    def __init__(self, **welcome: Any) -> None:
        super().__init__()
        self.welcome = {"protocolVersion": 2, "info": {"name": "x", "version": "1"}, **welcome}
        self._ended: list[asyncio.Task[None]] = []

    async def _new(self, params: Json) -> Json:
        return result(sessionId="s1", configOptions=[], availableCommands=[])

    async def _work(self, params: Json) -> Json:
        self._ended.append(asyncio.create_task(self._end()))
        return result(messageId="m1")

    async def _end(self) -> None:
        self.update({"sessionUpdate": "state_update", "state": "running"})
        await self.ends.wait()
        self.update({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"})


@pytest.mark.parametrize(("vector", "case"), CASES)
async def test_every_spelling_is_written_and_read_as_its_agents_do(tmp_path: Path, vector: Json, case: Json) -> None:
    agent = (SteeredAgent if vector["version"] == 1 else SteeredV2Agent)(**vector["initialize"])
    agent.before = vector.get("before")

    async def answer(params: Json) -> Json:
        reply: Json = case["answer"]
        return reply

    agent.answers[vector["request"]["method"]] = answer
    async with connect(agent, protocol_versions=(vector["version"],)) as remote:
        assert remote.capabilities.steering
        session = await remote.new_session(tmp_path)
        async with session.prompt("write a test") as turn:
            got = await turn.steer("use pytest")
            agent.ends.set()

        assert (got.outcome, got.reason) == (case["outcome"], case["reason"])
        assert agent.calls(vector["request"]["method"]) == [vector["request"]["params"]]
        assert user_messages(turn) == ["write a test", *(["use pytest"] if got.is_taken else [])]


async def test_an_agent_that_wants_the_id_of_the_run_gets_the_newest_and_is_not_asked_without_one(
    tmp_path: Path,
) -> None:
    [goose] = [vector for vector in VECTORS if vector["name"] == "goose"]
    agent = SteeredAgent(**goose["initialize"])

    def announce(run: str | None) -> None:
        agent.update({"sessionUpdate": "session_info_update", "_meta": {"goose": {"activeRunId": run}}})

    async with connect(agent) as remote, await remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn, asyncio.TaskGroup() as group:
            early = group.create_task(turn.steer("early"))
            await agent.until("session/prompt")
            announce("run-1")
            announce("run-2")
            agent.update({"sessionUpdate": "session_info_update", "title": "no run here"})
            params = await agent.until("_goose/unstable/session/steer")
            assert params["expectedRunId"] in ("run-1", "run-2")
            await early
            announce(None)
            agent.update(text_chunk("x"))
            await anext(event async for event in turn if getattr(event, "text", None) == "x")
            late = group.create_task(turn.steer("late"))
            agent.ends.set()
        assert late.result().outcome == "prompt_required"
        assert len(agent.calls("_goose/unstable/session/steer")) == 1


async def test_an_agent_that_asks_for_texts_gets_at_most_ten_at_once_and_the_rest_is_not_taken(tmp_path: Path) -> None:
    agent = SteeredAgent(agentInfo={"name": "qwen-code", "version": "0.21.1"})

    async def pull() -> Json:
        answer = await agent.ask("craft/drainMidTurnQueue", {"sessionId": "s1"})
        pulled: Json = answer["result"]
        return pulled

    async with connect(agent) as remote, await remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn, asyncio.TaskGroup() as group:
            await agent.until("session/prompt")
            assert await pull() == {"items": [], "hasQueuedPrompt": False}
            texts = [f"text {number}" for number in range(11)]
            sent = [group.create_task(turn.steer(text)) for text in texts]
            await asyncio.sleep(0)
            first = await pull()
            assert first["items"] == [{"content": [{"type": "text", "text": text}]} for text in texts[:10]]
            assert [each.result().outcome for each in sent[:10]] == ["injected"] * 10
            link = await turn.steer(ResourceLink("file:///x", "x"))
            assert link.outcome == "not_supported"
            agent.ends.set()
        assert sent[10].result().outcome == "prompt_required"
        assert user_messages(turn) == ["go", *texts[:10]]


async def test_an_agent_that_has_asked_once_is_known_to_take_texts(tmp_path: Path) -> None:
    agent = SteeredAgent()
    async with connect(agent) as remote, await remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            assert (await turn.steer("x")).outcome == "not_supported"
            await agent.ask("craft/drainMidTurnQueue", {"sessionId": "s1"})
            steering = asyncio.ensure_future(turn.steer("y"))
            await asyncio.sleep(0)
            answer = await agent.ask("craft/drainMidTurnQueue", {"sessionId": "s1"})
            assert answer["result"]["items"] == [{"content": [{"type": "text", "text": "y"}]}]
            assert (await steering).outcome == "injected"
            unknown = await agent.ask("craft/drainMidTurnQueue", {"sessionId": "other"})
            assert unknown["error"]["code"] == -32002
            agent.ends.set()


# --- fallbacks


async def test_without_a_fallback_nothing_happens_to_a_text_that_was_not_taken(tmp_path: Path) -> None:
    agent = SteeredAgent()
    async with connect(agent) as remote, await remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            got = await turn.steer("x")
            assert (got.outcome, got.turn, got.is_taken) == ("not_supported", None, False)
            agent.ends.set()
        assert len(agent.calls("session/prompt")) == 1
        with pytest.raises(ValueError, match="otherwise='no'"):
            await turn.steer("x", otherwise="no")  # type: ignore[arg-type]  # the mistake under test
        later = session.prompt("later")
        with pytest.raises(RuntimeError, match="not started"):
            await later.steer("x")
        await later.cancel()
        with pytest.raises(InvalidParams):
            await turn.steer([])


async def test_a_queued_text_is_the_next_prompt_and_the_running_turn_goes_on(tmp_path: Path) -> None:
    agent = SteeredAgent()
    async with connect(agent) as remote, await remote.new_session(tmp_path) as session:
        turn = session.prompt("go")
        events = aiter(turn)  # without `async with`, but not abandoned
        got = await turn.steer("x", otherwise="queue")
        assert (got.outcome, got.is_taken) == ("not_supported", False)
        assert got.turn is not None
        agent.update(text_chunk("still here"))
        assert getattr(await anext(events), "text", None) == "still here"
        assert agent.calls("session/cancel") == []
        agent.ends.set()
        await got.turn
        assert [each["prompt"][0]["text"] for each in agent.calls("session/prompt")] == ["go", "x"]
        assert turn.stop_reason == "end_turn"


async def test_cancel_and_send_cancels_the_turn_and_sends_the_text(tmp_path: Path) -> None:
    agent = SteeredAgent()
    async with connect(agent) as remote, await remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            waiting = session.prompt("queued before")
            waiting._start(is_steering=True)
            steering = asyncio.ensure_future(turn.steer("x", otherwise="cancel_and_send"))
            await agent.until("session/cancel")
            agent.ends.set()
            got = await steering
            assert turn.is_over
        assert got.turn is not None
        await got.turn
        texts = [each["prompt"][0]["text"] for each in agent.calls("session/prompt")]
        assert texts == ["go", "queued before", "x"]


async def test_an_error_of_the_agent_is_raised_and_the_text_is_the_callers(tmp_path: Path) -> None:
    agent = SteeredAgent(**STEERS)

    async def refuse(params: Json) -> Json:
        return error(-32602, "no images please")

    agent.answers["_session/steering"] = refuse
    async with connect(agent) as remote, await remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            with pytest.raises(RequestError, match="no images please"):
                await turn.steer("x", otherwise="queue")
            agent.ends.set()
        assert user_messages(turn) == ["go"]
        assert len(agent.calls("session/prompt")) == 1


# --- ends


async def test_an_agent_that_never_answers_is_waited_for_until_a_while_after_the_turn(tmp_path: Path) -> None:
    agent = SteeredAgent(**STEERS)

    async def never(params: Json) -> Json:
        agent.ends.set()
        await asyncio.Event().wait()
        return {}

    agent.answers["_session/steering"] = never
    async with connect(agent) as remote, await remote.new_session(tmp_path) as session:
        remote._cancel_timeout = 0.05
        async with session.prompt("go") as turn:
            got = await turn.steer("x")
        assert (got.outcome, got.reason) == ("prompt_required", "noResponse")


@pytest.mark.parametrize("otherwise", [None, "queue"])
async def test_a_text_whose_agent_is_lost_has_one_outcome_and_goes_to_the_next_one_only_if_the_caller_said_so(
    tmp_path: Path, otherwise: Any
) -> None:
    agents: list[SteeredAgent] = []

    class Exiting:
        async def serve(self, transport: Transport) -> None:
            agent = SteeredAgent(agentCapabilities={"sessionCapabilities": {"resume": {}}}, **STEERS)
            if agents:
                agent.ends.set()
            agents.append(agent)

            async def leave(params: Json) -> Json:
                await agent.transport.aclose()
                return {}

            agent.answers["_session/steering"] = leave
            await agent.serve(transport)

    async with connect(Exiting(), restart=Restart(pause=0.01)) as remote:
        session = await remote.new_session(tmp_path)
        turn = session.prompt("go")
        await turn.__aenter__()
        got = await turn.steer("x", otherwise=otherwise)
        assert (got.outcome, got.reason) == ("prompt_required", "connectionLost")
        with pytest.raises(ConnectionLost):
            async for _ in turn:
                pass
        if got.turn is not None:
            await got.turn
        sent = [[each["prompt"][0]["text"] for each in agent.calls("session/prompt")] for agent in agents]
        assert sent == ([["go"]] if otherwise is None else [["go"], ["x"]])
        assert sum(len(agent.calls("_session/steering")) for agent in agents) == 1


async def test_a_cancelled_caller_leaves_the_text_in_the_transcript_if_the_agent_took_it(tmp_path: Path) -> None:
    agent, answers = SteeredAgent(**STEERS), asyncio.Event()

    async def late(params: Json) -> Json:
        await answers.wait()
        return result(outcome="injected")

    agent.answers["_session/steering"] = late
    async with connect(agent) as remote, await remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            steering = asyncio.ensure_future(turn.steer("x"))
            await agent.until("_session/steering")
            steering.cancel()
            await asyncio.wait({steering})
            answers.set()
            agent.ends.set()
            async for _ in turn:
                pass
        assert user_messages(turn) == ["go", "x"]


# --- the other ways to use and to keep it


def test_a_turn_without_an_event_loop_is_steered_too(tmp_path: Path) -> None:
    with sync.connect([sys.executable, "-m", "duologue", "agent"]) as remote:
        session = remote.new_session(tmp_path)
        turn = session.prompt("/steer 30")
        for event in turn:
            if "Send me text" in getattr(event, "text", ""):
                assert turn.steer("use pytest").outcome == "injected"
            if "You sent: use pytest" in getattr(event, "text", ""):
                assert turn.steer("stop").outcome == "injected"
        assert turn.stop_reason == "end_turn"
        assert turn.steer("late", otherwise="queue").turn.wait().stop_reason == "end_turn"  # type: ignore[union-attr]


def test_the_examples_of_an_agent_and_a_client_work_together() -> None:
    program = Path(__file__).parents[2] / "examples" / "steering_client.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=True)
    assert "2. with regard to: write about tests\n[injected]\n" in done.stdout
    assert "5. with regard to: use pytest" in done.stdout


async def test_a_recording_has_the_steered_texts_where_they_were_taken(tmp_path: Path) -> None:
    agent = Agent[Any]("steered", steering=True)

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        await turn.say("one")
        await anext(aiter(turn.steering()))
        await turn.say("two")

    async with connect(agent, record=tmp_path / "r.acp") as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            await turn.steer("use pytest")
        assert (await turn.steer("late")).outcome == "prompt_required"
    [recorded] = recorded_sessions(tmp_path / "r.acp")
    assert [message.text for message in recorded.transcript.messages] == ["go", "one", "use pytest", "two"]
