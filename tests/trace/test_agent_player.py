"""The agent's side of a recording is played to clients that have ids, sessions and ideas of their own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from duologue.recording.format import Entry
from duologue.trace.replay.agent_player import MAX_REPLIES, MAX_TURNS, AgentPlayer
from duologue.trace.replay.script import ReplayScript
from tests.trace.conversations import SESSION, Conversation, tour


class Client:
    """A client of a played agent, with a clock that only the test moves."""

    def __init__(self, made: Conversation, **options: Any) -> None:
        self.player = AgentPlayer(ReplayScript(made.entries), **options)
        self.now = 100.0
        self.last_id = 500

    def send(self, **message: Any) -> None:
        self.player.receive(msgspec.json.encode({"jsonrpc": "2.0", **message}), self.now)

    def request(self, method: str, **params: Any) -> int:
        self.last_id += 1
        self.send(id=self.last_id, method=method, params=params)
        return self.last_id

    def prompt(self, text: str, session: str = SESSION) -> int:
        return self.request("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def received(self) -> list[dict[str, Any]]:
        """Return all that is sent now."""
        found: list[dict[str, Any]] = []
        while isinstance(frame := self.player.next(self.now), bytes):
            found.append(msgspec.json.decode(frame))
        return found

    def answer(self, **params: Any) -> dict[str, Any]:
        """Send a request and return the only message that follows."""
        self.request(**params)
        (message,) = self.received()
        return message

    def open(self, cwd: str = "/recorded/dir") -> str:
        assert self.answer(method="initialize", protocolVersion=1)["result"] == {"protocolVersion": 1}
        opened = self.answer(method="session/new", cwd=cwd, mcpServers=[])
        assert opened["id"] == self.last_id
        return str(opened["result"]["sessionId"])


def texts(messages: list[dict[str, Any]]) -> str:
    updates = [message["params"]["update"] for message in messages if message.get("method") == "session/update"]
    return "".join(update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk")


def test_a_turn_is_played_with_the_ids_paths_and_terminals_of_the_client() -> None:
    client = Client(tour())
    client.open("/live")
    prompt = client.prompt("tour")

    first = client.received()
    assert texts(first) == "Hello"
    assert first[-1]["method"] == "session/request_permission"
    client.send(id=first[-1]["id"], result={"outcome": {"outcome": "cancelled"}})
    (read,) = client.received()
    assert read["params"] == {"sessionId": SESSION, "path": "/live/a.txt"}
    client.send(id=read["id"], error={"code": -32002, "message": "no such file"})
    (create,) = client.received()
    client.send(id=create["id"], result={"terminalId": "terminal of the client"})
    (release,) = client.received()
    assert release["params"]["terminalId"] == "terminal of the client"
    client.send(id=release["id"], result={})
    assert client.received() == [{"jsonrpc": "2.0", "id": prompt, "result": {"stopReason": "end_turn"}}]
    assert client.player.next(client.now) is None


def test_prompts_are_matched_by_text_and_otherwise_in_order() -> None:
    made = Conversation().open()
    for number, text in enumerate(("one", "two", "three"), 3):
        made.prompt(text, number).say(text.upper()).respond(number, {"stopReason": "end_turn"})
    client = Client(made)
    client.open()

    played: list[str] = []
    for text in ("three", "unknown", "another", "three"):
        client.prompt(text)
        played.append(texts(client.received()))

    assert played == ["THREE", "ONE", "TWO", "THREE"]


def test_prompts_of_other_sessions_are_played_after_those_of_the_session() -> None:
    made = Conversation().open().prompt("one", 3).say("ONE").respond(3, {"stopReason": "end_turn"})
    made.ask("session/new", 4, {"sessionId": "second"}, cwd="/b", mcpServers=[])
    made.ask("session/prompt", 5, sessionId="second", prompt=[{"type": "text", "text": "two"}])
    made.update("agent_message_chunk", "second", content={"type": "text", "text": "TWO"}).respond(5, {})
    client = Client(made)
    client.open()

    played: list[str] = []
    for text in ("x", "y", "two"):
        client.prompt(text)
        messages = client.received()
        assert messages[0]["params"]["sessionId"] == SESSION
        played.append(texts(messages))

    assert played == ["ONE", "TWO", "TWO"]


def test_a_turn_that_is_played_again_has_other_ids() -> None:
    client = Client(
        Conversation().open().prompt("go", 3).tool("call_recorded_1", "edit").respond(3, {"stopReason": "end_turn"})
    )
    client.open()
    other = client.answer(method="session/new", cwd="/other", mcpServers=[])["result"]["sessionId"]

    assert other != SESSION
    client.prompt("go")
    first = client.received()[0]["params"]["update"]["toolCallId"]
    client.prompt("go", other)
    again = client.received()[0]["params"]
    assert again["sessionId"] == other
    assert again["update"]["toolCallId"] != first


def test_a_loaded_session_has_the_id_of_the_client() -> None:
    made = Conversation().ask("session/load", 1, sessionId=SESSION, cwd="/x").say("before").respond(1, {})
    client = Client(made)
    client.request("session/load", sessionId="another", cwd="/x")

    update, response = client.received()
    assert update["params"]["sessionId"] == "another"
    assert response["result"] == {}


def test_a_method_that_was_not_recorded_is_not_found() -> None:
    client = Client(tour())

    assert client.answer(method="session/fork")["error"]["code"] == -32601
    client.send(method="unknown/notification")
    assert client.received() == []


@pytest.mark.parametrize("frame", [b"{", b"[]", b"\xff", b'{"id":1}', b"[" * 100_000])
def test_an_invalid_message_is_answered_with_an_error(frame: bytes) -> None:
    for is_strict in (False, True):
        client = Client(tour(), is_strict=is_strict)
        client.player.receive(frame, 0.0)
        (message,) = client.received()
        assert message["error"]["code"] in (-32700, -32600)
        assert client.player.is_finished is is_strict
        client.player.receive(frame, 0.0)
        assert len(client.received()) == (0 if is_strict else 1)


def test_a_turn_that_was_not_cancelled_in_the_recording_can_be_cancelled() -> None:
    client = Client(tour())
    client.open()
    prompt = client.prompt("tour")
    asked = client.received()[-1]
    client.send(method="session/cancel", params={"sessionId": SESSION})

    assert client.received() == [{"jsonrpc": "2.0", "id": prompt, "result": {"stopReason": "cancelled"}}]
    client.send(id=asked["id"], result={"outcome": {"outcome": "cancelled"}})
    assert client.received() == []


def test_a_turn_of_version_2_is_cancelled_with_an_update() -> None:
    made = Conversation().open(2).prompt("go", 3).respond(3, {"messageId": "m"}).say("Hel").request("x/y", 1, {})
    client = Client(made.update("state_update", state="idle", stopReason="end_turn"))
    client.request("initialize", protocolVersion=2)
    client.request("session/new", cwd="/recorded/dir", mcpServers=[])
    client.prompt("go")
    assert texts(client.received()) == "Hel"
    client.send(method="session/cancel", params={"sessionId": SESSION})

    (update,) = client.received()
    assert update["params"]["update"] == {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}
    client.prompt("go")
    client.send(method="session/cancel", params={"sessionId": SESSION})
    response, _ = client.received()
    assert response["id"] == client.last_id


def test_a_turn_that_was_answered_is_cancelled_without_another_response() -> None:
    made = Conversation().open().prompt("go", 3).respond(3, {"stopReason": "end_turn"}).request("x/y", 1, {})
    client = Client(made)
    client.open()
    client.prompt("go")
    assert len(client.received()) == 2
    client.send(method="session/cancel", params={"sessionId": SESSION})

    assert client.received() == []


def test_an_answer_to_a_request_that_was_never_answered_before_is_accepted() -> None:
    client = Client(Conversation().open().prompt("go", 3).request("x/y", 1).say("a").respond(3, {}), speed=1.0)
    client.now += 10.0
    client.request("session/prompt", sessionId=SESSION, prompt=[])
    client.now += 0.15
    (asked,) = client.received()
    client.send(id=asked["id"], result={})
    client.now += 10.0

    assert texts(client.received()) == "a"


def test_a_cancelled_request_is_answered_with_an_error() -> None:
    client = Client(tour())
    client.open()
    prompt = client.prompt("tour")
    client.received()
    client.send(method="$/cancel_request", params={"requestId": prompt})

    (message,) = client.received()
    assert message["error"]["code"] == -32800


def cancelled() -> Conversation:
    made = Conversation().open().prompt("go", 3).say("a").request("x/y", 1)
    made.notify("session/cancel", sessionId=SESSION).add("to_agent", {"id": 1, "result": {}})
    return made.say("b").respond(3, {"stopReason": "cancelled"})


@pytest.mark.parametrize("is_early", [True, False])
def test_a_recorded_cancellation_waits_for_that_of_the_client(is_early: bool) -> None:
    client = Client(cancelled())
    client.open()
    client.prompt("go")
    before = [] if is_early else client.received()
    client.send(method="session/cancel", params={"sessionId": SESSION})
    if not is_early:
        client.send(id=before[-1]["id"], result={})

    played = [*before, *client.received()]
    assert texts(played) == ("b" if is_early else "ab")
    assert played[-1]["result"] == {"stopReason": "cancelled"}


def test_a_client_that_neither_cancels_nor_answers_does_not_block_the_turn() -> None:
    client = Client(cancelled(), timeout=5.0)
    client.open()
    client.prompt("go")
    assert texts(client.received()) == "a"
    assert client.player.next(client.now) == 5.0
    client.now += 5.0
    assert client.received() == []
    client.now += 5.0
    (message,) = client.received()
    assert message["id"] == client.last_id
    assert "did not arrive within 5 s" in message["error"]["message"]


def test_a_request_without_a_recorded_response_is_answered_with_an_error() -> None:
    client = Client(Conversation().open().prompt("go", 3).say("cut"))
    client.open()
    client.prompt("go")

    *_, message = client.received()
    assert "the recording ends before" in message["error"]["message"]


def test_messages_of_the_agent_before_any_of_the_client_are_sent_at_once() -> None:
    made = Conversation().add("to_client", {"method": "_vendor/hello", "params": {}})
    client = Client(made.open())

    assert [message["method"] for message in client.received()] == ["_vendor/hello"]


def test_a_recorded_notification_of_the_client_starts_what_followed_it() -> None:
    client = Client(Conversation().open().notify("_vendor/go", sessionId=SESSION).say("went"))
    client.open()
    client.send(method="_vendor/go", params={"sessionId": SESSION})

    assert texts(client.received()) == "went"


def test_the_recorded_speed_is_kept_and_pauses_are_bounded() -> None:
    made = Conversation().open().prompt("go", 3).say("a")
    made.entries.append(Entry(t=1e300, dir="to_client", frame=made.entries[-1].frame))
    client = Client(made, speed=0.5, timeout=7.0)
    client.request("initialize", protocolVersion=1)
    assert client.player.next(client.now) == pytest.approx(0.2)
    client.now += 0.21
    assert len(client.received()) == 1
    client.prompt("go")
    client.now += 0.21
    assert texts(client.received()) == "a"
    assert client.player.next(client.now) == pytest.approx(7.0)


def test_sessions_are_played_at_the_same_time() -> None:
    made = Conversation().open().prompt("go", 3)
    for _ in range(50):
        made.say("x")
    client = Client(made.respond(3, {"stopReason": "end_turn"}))
    client.open()
    other = client.answer(method="session/new", cwd="/b", mcpServers=[])["result"]["sessionId"]
    client.prompt("go")
    client.prompt("go", other)

    sessions = [message["params"]["sessionId"] for message in client.received() if "method" in message]
    assert sessions[:4] in ([SESSION, other] * 2, [other, SESSION] * 2)
    assert len(sessions) == 100


def test_the_number_of_turns_and_of_waiting_responses_is_bounded() -> None:
    client = Client(tour())
    for _ in range(MAX_TURNS + MAX_REPLIES):
        client.request("session/prompt", sessionId=SESSION, prompt=[])

    assert client.player.is_full
    assert sum("error" in message for message in client.received()) == MAX_REPLIES
    assert not client.player.is_full


# --- strict


def strict(made: Conversation, **options: Any) -> Client:
    return Client(made, is_strict=True, **options)


def test_a_strict_playback_accepts_the_recorded_client_with_other_ids() -> None:
    client = strict(tour())
    client.open("/live")
    client.prompt("tour")
    permission = client.received()[-1]
    client.send(id=permission["id"], result={"outcome": {"outcome": "selected", "optionId": "yes"}})
    for result in ({"content": "text"}, {"terminalId": "mine"}, {}):
        client.send(id=client.received()[-1]["id"], result=result)

    assert client.received()[-1]["result"] == {"stopReason": "end_turn"}
    client.player.disconnected()
    assert client.player.failure == ""


@pytest.mark.parametrize(
    ("method", "params", "problem"),
    [
        (
            "session/new",
            {"cwd": "/x"},
            "frame 1: expected the request initialize (frame 1), received the request session/new",
        ),
        (
            "initialize",
            {"protocolVersion": 2},
            "frame 1 (initialize): $.params.protocolVersion: expected 1, received 2",
        ),
        ("initialize", {}, "frame 1 (initialize): $.params.protocolVersion: expected 1, received nothing"),
    ],
)
def test_a_strict_playback_ends_at_the_first_deviation(method: str, params: dict[str, Any], problem: str) -> None:
    client = strict(tour())
    message = client.answer(method=method, **params)

    assert message["error"]["message"] == problem
    assert client.player.failure == problem
    assert client.player.is_finished


def test_a_strict_playback_checks_answers_and_leaves_no_request_open() -> None:
    client = strict(tour())
    client.open()
    prompt = client.prompt("tour")
    permission = client.received()[-1]
    client.send(id=permission["id"], result={"outcome": {"outcome": "selected", "optionId": "no"}})

    (message,) = client.received()
    assert message["id"] == prompt
    assert client.player.failure == (
        'frame 11 (response to session/request_permission): $.result.outcome.optionId: expected "yes", received "no"'
    )


@pytest.mark.parametrize(
    ("recorded", "sent", "problem"),
    [
        ({"result": {}}, {"error": {"code": 1}}, "expected a result, received an error"),
        ({"error": {"code": 1}}, {"result": {}}, "expected an error, received a result"),
        ({"error": {"code": 1}}, {"error": {"code": 2}}, "$.error.code: expected 1, received 2"),
        ({"error": {"code": 1}}, {"error": {"code": 1, "message": "other"}}, ""),
    ],
)
def test_a_strict_playback_compares_errors_by_code(recorded: Any, sent: Any, problem: str) -> None:
    made = Conversation().open().prompt("go", 3).request("x/y", 1).add("to_agent", {"id": 1, **recorded})
    client = strict(made.respond(3, {"stopReason": "end_turn"}))
    client.open()
    client.prompt("go")
    client.send(id=client.received()[-1]["id"], **sent)

    assert client.player.failure.endswith(problem)
    assert bool(client.player.failure) == bool(problem)


def test_a_strict_playback_fails_on_stray_answers_and_on_more_than_was_recorded() -> None:
    client = strict(Conversation().open())
    client.send(id=77, result={})
    assert client.player.failure == "the client answered a request that was not sent: id 77"

    client = strict(Conversation().open())
    client.open()
    client.send(method="session/cancel", params={"sessionId": SESSION})
    assert "no further message of the client" in client.player.failure


def test_a_strict_playback_ignores_what_it_is_asked_to_and_removed_secrets() -> None:
    made = Conversation().ask("initialize", 1, {}, protocolVersion=1, secret="•••", other={"a": 1, "b": [1, 2]})
    client = strict(made, ignored=("*.other.b[*]", "a"))
    client.request("initialize", protocolVersion=1, secret="key", other={"a": 2, "b": [3]})

    assert client.player.failure == ""


def test_a_strict_playback_waits_for_a_recorded_cancellation() -> None:
    client = strict(cancelled())
    client.open()
    client.prompt("go")
    client.send(method="session/cancel", params={"sessionId": SESSION})
    asked = client.received()[-1]
    client.send(id=asked["id"], result={})

    assert client.received()[-1]["result"] == {"stopReason": "cancelled"}


def test_a_strict_playback_fails_if_the_client_stays_silent_or_leaves() -> None:
    client = strict(tour(), timeout=9.0)
    assert client.player.next(client.now) == 9.0
    client.now += 9.0
    assert client.player.next(client.now) is None
    assert client.player.failure == "the request initialize (frame 1) did not arrive within 9 s"

    client = strict(tour())
    client.open()
    client.player.disconnected("a reason")
    assert client.player.failure == (
        "the client disconnected, but the request session/prompt (frame 5) was expected (a reason)"
    )


def test_a_strict_playback_fails_if_an_answer_does_not_come() -> None:
    client = strict(tour(), timeout=9.0)
    client.open()
    client.prompt("tour")
    client.received()
    client.now += 9.0

    (message,) = client.received()
    assert message["error"]["message"] == client.player.failure
    assert "the response to session/request_permission (frame 11) did not arrive" in client.player.failure
