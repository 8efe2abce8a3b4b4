"""Trials that run are watched over ACP: replayed, then live; nothing is changed unless the run allows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from duologue import Agent, Turn
from duologue import connect as connect_agent
from duologue.evals.record.key import TrialKey
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.run import watched_trial
from duologue.evals.run.attach_server import READ_ONLY, serve_trials
from duologue.evals.run.conversation import Conversation
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.suite_run import run_suite
from duologue.evals.run.watched_trial import Follower, TrialWatch, WatchedTrial
from duologue.evals.suite.case import Case

pytestmark = pytest.mark.timeout(120)

SECRET = "s3cret-value-of-the-test"


class SlowAgent:
    """An agent that says one word, then waits until the test lets it go on."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.asked: list[bool] = []
        self.agent = Agent("slow", steering=True)
        self.agent.on_prompt(self._answer)

    async def _answer(self, turn: Turn) -> None:
        await turn.say(f"first {SECRET} ")
        async with turn.tool("Write x", kind="edit") as tool:
            self.asked.append(bool(await tool.request_permission()))
        self.has_begun.set()
        steering = asyncio.create_task(self._steer(turn))
        await self.may_end.wait()
        steering.cancel()
        await turn.say("last")

    async def _steer(self, turn: Turn) -> None:
        async for message in turn.steering():
            await turn.say(f"received {message.text} ")


class Watcher:
    """A client that speaks JSON-RPC and keeps what it is sent."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.texts = ""
        self.updates: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self._ids = 0

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request; return the response, and keep the notifications before it."""
        self._ids += 1
        await self._send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        while True:
            message = await self._next()
            if message.get("id") == self._ids and "method" not in message:
                return message

    async def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def until(self, text: str) -> None:
        """Wait until a text was shown."""
        while text not in self.texts:
            await self._next()

    async def _send(self, message: dict[str, Any]) -> None:
        await self._socket.send(msgspec.json.encode(message), text=True)

    async def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = msgspec.json.decode(await self._socket.recv())
        if "method" in message and "id" in message:
            self.requests.append(message["method"])
        elif message.get("method") == "session/update":
            update = message["params"]["update"]
            self.updates.append(update)
            self.texts += update.get("content", {}).get("text", "") if isinstance(update.get("content"), dict) else ""
        return message


@asynccontextmanager
async def watching(url: str) -> AsyncGenerator[Watcher]:
    """Connect a watcher, and initialize it."""
    address, _, token = url.partition("#token=")
    async with asyncio.timeout(60), connect(address, additional_headers={"Authorization": f"Bearer {token}"}) as socket:
        watcher = Watcher(socket)
        answer = await watcher.call("initialize", protocolVersion=1, clientCapabilities={})
        assert answer["result"]["agentCapabilities"]["loadSession"] is True
        yield watcher


@asynccontextmanager
async def running(
    folder: Path, slow: SlowAgent, *, may_control: bool = False, **fields: Any
) -> AsyncGenerator[tuple[str, Path]]:
    """Run a trial of a slow agent and serve it; yield the URL and the directory of the run."""
    suite = folder / "suite.jsonl"
    case = {"id": "fix", "prompts": ["Fix it."], "graders": [{"type": "text", "contains": ["last"]}], **fields}
    suite.write_bytes(msgspec.json.encode(case))
    watch = TrialWatch()
    async with serve_trials(watch, may_control=may_control) as url, asyncio.TaskGroup() as group:
        options = TrialOptions(sandbox="none", env=("ATTACH_SECRET",))
        run = group.create_task(run_suite(suite, {"slow": slow.agent}, folder / "run", options=options, watch=watch))
        try:
            async with asyncio.timeout(60):
                await slow.has_begun.wait()
            yield url, folder / "run"
        finally:
            slow.may_end.set()
            await run


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the run a secret, which the agent says."""
    monkeypatch.setenv("ATTACH_SECRET", SECRET)


def outcome_of(run: Path) -> tuple[str, str]:
    """Return the kind and the reason of the only trial of a run."""
    (record,) = RunDirectory.open(run).records()
    outcome = record.result().outcome
    return outcome.kind, outcome.reason


async def test_a_trial_is_replayed_and_then_followed_until_it_ends(tmp_path: Path) -> None:
    slow = SlowAgent()
    async with running(tmp_path, slow) as (url, run), watching(url) as watcher:
        listed = (await watcher.call("session/list"))["result"]["sessions"]
        assert [(each["sessionId"], each["title"]) for each in listed] == [("slow/fix/1", "slow: fix, trial 1")]

        loaded = await watcher.call("session/load", sessionId="slow/fix/1", cwd="/", mcpServers=[])
        assert "result" in loaded
        assert watcher.texts.startswith("Fix it.first ")
        assert {update["sessionUpdate"] for update in watcher.updates} >= {"user_message_chunk", "tool_call"}
        assert "last" not in watcher.texts

        slow.may_end.set()
        await watcher.until("[the trial has ended: completed, end_turn]")
        assert "last" in watcher.texts

    assert SECRET not in watcher.texts
    # The permission was answered by the case, and the watcher was not asked.
    assert (slow.asked, watcher.requests) == ([False], [])
    assert outcome_of(run) == ("completed", "end_turn")


async def test_a_watcher_changes_nothing(tmp_path: Path) -> None:
    slow = SlowAgent()
    id = "slow/fix/1"
    async with running(tmp_path, slow) as (url, run), watching(url) as watcher:
        text = [{"type": "text", "text": "stop"}]
        refused = [
            await watcher.call("session/prompt", sessionId=id, prompt=text),
            await watcher.call("session/new", cwd="/", mcpServers=[]),
            await watcher.call("session/set_mode", sessionId=id, modeId="x"),
            await watcher.call("session/delete", sessionId=id),
            await watcher.call("session/load", sessionId="slow/fix/2", cwd="/", mcpServers=[]),
        ]
        await watcher.notify("session/cancel", sessionId=id)
        await watcher.call("session/close", sessionId=id)
        assert [answer["error"]["code"] for answer in refused] == [-32600, -32600, -32600, -32600, -32002]
        assert refused[0]["error"]["message"] == READ_ONLY

    assert outcome_of(run) == ("completed", "end_turn")


async def test_several_watchers_see_the_same_and_may_leave(tmp_path: Path) -> None:
    slow = SlowAgent()
    load = {"sessionId": "slow/fix/1", "cwd": "/", "mcpServers": list[Any]()}
    async with running(tmp_path, slow) as (url, run), watching(url) as stays, watching(url) as other:
        async with watching(url) as leaves:
            await leaves.call("session/load", **load)
        await stays.call("session/load", **load)
        await other.call("session/load", **load)
        slow.may_end.set()
        await stays.until("has ended")
        await other.until("has ended")

    assert stays.updates == other.updates
    assert outcome_of(run) == ("completed", "end_turn")


async def test_with_control_a_cancelled_trial_does_not_count_and_is_not_tried_again(tmp_path: Path) -> None:
    slow = SlowAgent()
    async with running(tmp_path, slow, may_control=True) as (url, run), watching(url) as watcher:
        await watcher.call("session/load", sessionId="slow/fix/1", cwd="/", mcpServers=[])
        await watcher.notify("session/cancel", sessionId="slow/fix/1")
        await watcher.until("[the trial has ended: cancelled, attach]")

    assert outcome_of(run) == ("cancelled", "attach")


async def test_with_control_a_steered_trial_goes_on_and_does_not_count(tmp_path: Path) -> None:
    slow = SlowAgent()
    async with running(tmp_path, slow, may_control=True) as (url, run), watching(url) as watcher:
        await watcher.call("session/load", sessionId="slow/fix/1", cwd="/", mcpServers=[])
        text = [{"type": "text", "text": "use tabs"}]
        answer = await watcher.call("session/prompt", sessionId="slow/fix/1", prompt=text)
        assert answer["result"]["stopReason"] == "end_turn"
        await watcher.until("received use tabs")
        slow.may_end.set()
        await watcher.until("has ended: cancelled, attach")

    assert outcome_of(run) == ("cancelled", "attach")
    assert "last" in watcher.texts


async def test_with_control_a_steered_trial_does_not_count_however_it_ends(tmp_path: Path) -> None:
    slow, fields = SlowAgent(), {"prompts": ["Fix it.", "And then?"], "budget": {"prompts": 1}}
    async with running(tmp_path, slow, may_control=True, **fields) as (url, run), watching(url) as watcher:
        text = [{"type": "text", "text": "use tabs"}]
        await watcher.call("session/prompt", sessionId="slow/fix/1", prompt=text)

    assert outcome_of(run) == ("cancelled", "attach")


async def test_a_trial_that_is_cancelled_between_two_turns_sends_no_further_prompt(tmp_path: Path) -> None:
    async with connect_agent(SlowAgent().agent) as agent:
        conversation = Conversation(await agent.new_session(tmp_path), Case(id="fix", prompts=["Fix it."]))
        await conversation.interrupt()
        outcome = await conversation.run()

    assert (outcome.kind, outcome.reason, conversation.prompts) == ("cancelled", "attach", 0)


@pytest.mark.parametrize(
    ("given", "headers", "status"),
    [
        (None, {}, 401),
        ("wrong", {}, 401),
        ("right", {"Origin": "https://example.com"}, 403),
        ("right", {"Host": "example.com"}, 403),
    ],
    ids=["no token", "wrong token", "foreign origin", "foreign host"],
)
async def test_the_server_refuses_strangers(given: str | None, headers: dict[str, str], status: int) -> None:
    async with serve_trials(TrialWatch()) as url:
        assert url.startswith("ws://127.0.0.1:")
        address, _, token = url.partition("#token=")
        sent = {} if given is None else {"Authorization": f"Bearer {token if given == 'right' else 'x' * len(token)}"}
        with pytest.raises(InvalidStatus) as refused:
            async with connect(address, additional_headers={**sent, **headers}):
                pass

    assert refused.value.response.status_code == status


async def test_the_oldest_updates_of_a_long_trial_are_replaced_by_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watched_trial, "MOST_BYTES", 10_000)
    trial = WatchedTrial(TrialKey("digest", "fix", 1, "slow"), 1, lambda frame: frame)
    for number in range(1000):
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"<{number}>"}}
        params = {"sessionId": "x", "update": update}
        trial("in", msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    trial("in", b'{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": ')
    trial.end("completed")
    follower, texts = Follower(trial), list[str]()
    while await follower.wait():
        while (taken := follower.take()) is not None:
            texts.append(getattr(getattr(taken, "content", None), "text", ""))

    assert texts[0].endswith("earlier updates are in the recording]\n\n")
    assert texts[-2:] == ["<999>", "\n\n[the trial has ended: completed]\n"]
    assert len(texts) < 100
