"""The client's side of a recording is played to an agent, each message after what preceded it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from duologue.trace.replay import client_driver
from duologue.trace.replay.client_driver import SETTLE_SECONDS, ClientDriver
from duologue.trace.replay.deviation import compare
from duologue.trace.replay.script import ReplayScript
from tests.trace.conversations import SESSION, Conversation, tour


class LiveAgent:
    """An agent that a driver talks to, with a clock that only the test moves."""

    def __init__(self, made: Conversation, **options: Any) -> None:
        self.driver = ClientDriver(ReplayScript(made.entries), **options)
        self.now = 50.0

    def received(self) -> dict[str, Any]:
        frame = self.driver.next(self.now)
        assert isinstance(frame, bytes)
        return dict(msgspec.json.decode(frame))

    def waits(self) -> float:
        seconds = self.driver.next(self.now)
        assert isinstance(seconds, float)
        return seconds

    def send(self, **message: Any) -> None:
        self.driver.receive(msgspec.json.encode({"jsonrpc": "2.0", **message}), self.now)

    def respond(self, result: Any) -> dict[str, Any]:
        """Answer the next message; return it."""
        request = self.received()
        self.send(id=request["id"], result=result)
        return request

    def update(self, update: str, /, **members: Any) -> None:
        params = {"sessionId": "live session", "update": {"sessionUpdate": update, **members}}
        self.send(method="session/update", params=params)

    def open(self, version: int = 1) -> None:
        self.respond({"protocolVersion": version})
        self.respond({"sessionId": "live session"})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request to the client; return its response."""
        self.send(id="of the agent", method=method, params=params)
        response = self.received()
        assert response.pop("id") == "of the agent"
        return response


def test_messages_are_sent_with_the_ids_and_paths_of_the_run() -> None:
    agent = LiveAgent(tour(), cwd="/live")
    assert agent.respond({"protocolVersion": 1})["method"] == "initialize"
    assert agent.respond({"sessionId": "live session"})["params"]["cwd"] == "/live"
    assert agent.received()["params"]["sessionId"] == "live session"
    assert agent.driver.directories == ("/recorded/dir", "/live")


def test_the_recorded_directory_is_used_if_there_is_no_other() -> None:
    made = Conversation().ask("initialize", 1, {}).notify("$/cancel_request", requestId=None)
    agent = LiveAgent(made, cwd="/live")
    agent.respond({})

    assert agent.received()["params"] == {"requestId": None}
    assert agent.driver.directories == ("", "")
    assert not agent.driver.is_full


def test_a_response_to_a_request_without_a_recorded_one_is_accepted() -> None:
    agent = LiveAgent(Conversation().ask("initialize", 1))
    agent.respond({})

    assert agent.driver.next(agent.now) is None
    assert agent.driver.is_finished


def test_a_message_waits_for_the_responses_before_it_but_not_forever() -> None:
    agent = LiveAgent(tour(), timeout=20.0)
    agent.received()
    assert agent.waits() == 20.0
    agent.now += 20.0
    assert agent.driver.next(agent.now) is None
    assert agent.driver.failure == "no response to initialize within 20 s"
    assert agent.driver.is_finished
    agent.send(method="too/late")
    assert len(agent.driver.entries) == 1


def test_requests_of_the_agent_get_the_recorded_answers() -> None:
    agent = LiveAgent(tour(), cwd="/live")
    agent.open()
    agent.received()

    assert agent.ask("fs/read_text_file", path="/live/a.txt")["result"] == {"content": "text"}
    assert agent.ask("terminal/create", command="ls")["result"] == {"terminalId": "t1"}
    assert agent.ask("fs/write_text_file", path="/x")["error"]["code"] == -32601
    assert agent.ask("fs/read_text_file", path="/live/other.txt")["result"] == {"content": "text"}


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ([("yes", "allow_once"), ("no", "reject_once")], {"outcome": "selected", "optionId": "yes"}),
        ([("n1", "reject_once"), ("y1", "allow_once")], {"outcome": "selected", "optionId": "y1"}),
        ([("n1", "reject_once")], {"outcome": "cancelled"}),
        ([], {"outcome": "cancelled"}),
    ],
)
def test_a_permission_is_answered_with_an_option_that_is_offered(options: Any, outcome: Any) -> None:
    agent = LiveAgent(tour())
    agent.open()
    agent.received()
    offered = [{"optionId": name, "name": name, "kind": kind} for name, kind in options]

    assert agent.ask("session/request_permission", options=offered)["result"] == {"outcome": outcome}


def test_a_permission_that_was_not_recorded_is_cancelled() -> None:
    agent = LiveAgent(Conversation().open())

    assert agent.received()["method"] == "initialize"
    assert agent.ask("session/request_permission", options=[])["result"] == {"outcome": {"outcome": "cancelled"}}


def test_a_turn_of_version_2_ends_with_an_update() -> None:
    made = Conversation().open(2).prompt("go", 3).respond(3, {"messageId": "m"}).say("hello")
    made.update("state_update", state="idle", stopReason="end_turn").ask("session/close", 4, {}, sessionId=SESSION)
    agent = LiveAgent(made, timeout=9.0)
    agent.open(2)
    agent.respond({"messageId": "live"})
    assert agent.waits() == 9.0
    agent.update("agent_message_chunk", content={"type": "text", "text": "hello"})
    agent.update("state_update", state="idle", stopReason="end_turn")
    assert agent.respond({})["method"] == "session/close"
    assert agent.driver.next(agent.now) is None
    assert agent.driver.is_finished
    assert compare(ReplayScript(made.entries), ReplayScript(agent.driver.entries)) == []


def test_a_turn_of_version_2_that_does_not_end_is_not_waited_for_forever() -> None:
    made = Conversation().open(2).prompt("go", 3).respond(3, {}).update("state_update", state="idle")
    agent = LiveAgent(made, timeout=9.0)
    agent.open(2)
    agent.respond({})
    agent.waits()
    agent.now += 9.0
    assert agent.driver.next(agent.now) is None
    assert agent.driver.failure == "the turn did not end within 9 s"


def test_a_message_waits_a_little_for_the_updates_before_it() -> None:
    made = Conversation().open().update("available_commands_update", availableCommands=[]).prompt("go", 3)
    agent = LiveAgent(made.respond(3, {"stopReason": "end_turn"}))
    agent.open()
    assert 0 < agent.waits() <= SETTLE_SECONDS + 0.3
    agent.update("available_commands_update", availableCommands=[])
    assert agent.received()["method"] == "session/prompt"

    agent = LiveAgent(made)
    agent.open()
    agent.now += SETTLE_SECONDS + 0.3
    assert agent.received()["method"] == "session/prompt"


def test_an_update_of_a_session_that_came_early_is_not_waited_for() -> None:
    made = Conversation().open().prompt("go", 3).update("available_commands_update", availableCommands=[])
    agent = LiveAgent(made.respond(3, {}).ask("session/close", 4, {}, sessionId=SESSION))
    agent.open()
    agent.update("available_commands_update", availableCommands=[])
    agent.respond({})

    assert agent.received()["method"] == "session/close"


def cancelled() -> Conversation:
    made = Conversation().open().prompt("go", 3).say("one").say("two").notify("session/cancel", sessionId=SESSION)
    return made.respond(3, {"stopReason": "cancelled"})


def test_a_turn_is_cancelled_after_what_was_recorded_before() -> None:
    agent = LiveAgent(cancelled())
    agent.open()
    prompt = agent.received()
    assert agent.waits() > 0
    agent.update("agent_message_chunk", content={"type": "text", "text": "onetwo"})
    assert agent.received()["method"] == "session/cancel"
    agent.send(id=prompt["id"], result={"stopReason": "cancelled"})
    assert agent.driver.next(agent.now) is None
    assert agent.driver.is_finished


def test_a_turn_that_has_ended_is_not_waited_for_to_be_cancelled() -> None:
    agent = LiveAgent(cancelled())
    agent.open()
    agent.respond({"stopReason": "end_turn"})

    assert agent.received()["method"] == "session/cancel"


def test_a_cancelled_request_has_its_new_id() -> None:
    made = Conversation().open().ask("session/list", 30).notify("$/cancel_request", requestId=30).fail(30, -32800)
    agent = LiveAgent(made)
    agent.open()
    request = agent.received()

    assert agent.received()["params"]["requestId"] == request["id"]


def test_the_recorded_speed_is_kept_for_messages_and_answers() -> None:
    agent = LiveAgent(tour(), speed=0.5)
    agent.respond({"protocolVersion": 1})
    assert agent.waits() == pytest.approx(0.2)
    agent.now += 0.2
    agent.respond({"sessionId": "live session"})
    agent.now += 0.2
    agent.received()
    agent.send(id=1, method="fs/read_text_file", params={"path": "/recorded/dir/a.txt"})
    assert agent.waits() == pytest.approx(0.2)
    agent.now += 0.21
    assert agent.received()["result"] == {"content": "text"}


def test_an_agent_of_another_protocol_version_ends_the_run() -> None:
    agent = LiveAgent(tour())
    agent.respond({"protocolVersion": 2})

    assert agent.driver.failure == "the recording is of protocol version 1, but the agent chose 2"


def test_an_agent_that_disconnects_ends_the_run() -> None:
    agent = LiveAgent(tour())
    agent.received()
    agent.driver.disconnected("exit code 3")
    assert agent.driver.failure == "the agent disconnected before session/new (frame 3): exit code 3"
    agent.driver.disconnected()

    agent = LiveAgent(Conversation().ask("initialize", 1, {}))
    agent.received()
    agent.driver.disconnected()
    assert agent.driver.failure == "the agent disconnected before the end of the recording"


def test_broken_frames_and_stray_responses_are_only_recorded() -> None:
    agent = LiveAgent(tour())
    agent.received()
    for frame in (
        b"\xff{",
        b"[1]",
        b'{"jsonrpc":"2.0","id":true,"result":{}}',
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
    ):
        agent.driver.receive(frame, agent.now)

    assert [entry.text for entry in agent.driver.entries] == [None, "�{", None, None, None]
    assert agent.waits() > 0


def test_the_output_of_an_agent_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_driver, "MAX_BYTES", 2 << 20)
    agent = LiveAgent(tour())
    agent.received()
    while not agent.driver.failure:
        agent.update("agent_message_chunk", content={"type": "text", "text": "x" * 10_000})

    assert agent.driver.failure == "the agent has sent more than 2 MiB"
