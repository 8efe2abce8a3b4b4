"""The normaliser apart from its rules: what it leaves unchanged, what it remembers, what it logs."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.compat.dialects import Dialect
from duologue.compat.json_access import as_object, objects
from duologue.compat.message import MAX_INPUT_BYTES, PeerContext
from duologue.compat.normaliser import Normaliser
from duologue.compat.rules import Side
from duologue.jsonrpc.framing import Oversized
from duologue.jsonrpc.peer import MAX_PENDING
from duologue.recording.redaction import redact
from tests.compat.vectors import Vector, frame_of, load_vectors, play

PROMPT: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 3,
    "method": "session/prompt",
    "params": {"sessionId": "s", "prompt": []},
}
WRITE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "fs/write_text_file",
    "params": {"path": "/a", "content": ""},
}


def chunk(text: str, session_id: str = "s") -> dict[str, Any]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session_id, "update": update}}


def answer(id: int | str, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


@pytest.mark.parametrize("side", ["agent", "client"])
@pytest.mark.parametrize("dialect", ["seed-003", "seed-004", None])
@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"not json",
        b"[]",
        b'{"jsonrpc":"2.0","method":7}',
        b'{"method":"session/update","params":{}}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":99,"result":null}',
        b'{"jsonrpc":"2.0","id":99}',
        b'{"jsonrpc":"2.0","id":99,"result":{},"error":{"code":-32001,"message":"both"}}',
        b'{"jsonrpc":"2.0","id":99,"error":{"code":"-32001","message":"a word"}}',
        b'{"jsonrpc":"2.0","id":99,"error":[]}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"nobody"}}',
        b'{"jsonrpc":"2.0","method":"session/update"}',
        b'{"jsonrpc":"2.0","method":"session/update","params":[1,2]}',
        b'{"jsonrpc":"2.0","method":"session/update","params":{"update":{"type":"tool_call","line":1e999}}}',
        b'{"jsonrpc":"2.0","method":"_vendor/hello","params":{"type":"tool_call"}}',
        b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}',
        Oversized(b'{"jsonrpc":"2.0","method":"session/update","params":{', 2**26),
    ],
)
def test_a_frame_without_a_seed_form_passes_as_the_very_same_object(
    frame: bytes, dialect: Dialect | None, side: Side
) -> None:
    normaliser = Normaliser(dialect, side)

    for convert in (normaliser.incoming, normaliser.outgoing):
        frames = convert(frame)
        assert len(frames) == 1
        assert frames[0] is frame
    assert not normaliser.hits


def test_without_a_named_dialect_nothing_of_ours_is_rewritten() -> None:
    for vector in load_vectors():
        if vector.direction == "outgoing" and not vector.options.get("models"):
            normaliser = Normaliser(None, vector.side)
            for before in vector.given:
                play(normaliser, before.direction, before.frame)
            frame = frame_of(vector.before)
            assert normaliser.outgoing(frame)[0] is frame


def test_a_seed_form_from_the_wrong_side_is_unchanged() -> None:
    frame = frame_of(
        {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {"type": "plan"}}}
    )

    assert Normaliser(None, "agent").incoming(frame)[0] is frame
    assert Normaliser(None, "client").incoming(frame) != [frame]


@pytest.mark.parametrize("version", [2, 3])
def test_nothing_is_rewritten_once_a_later_version_is_agreed(version: int) -> None:
    normaliser = Normaliser("seed-004", "client")
    play(normaliser, "outgoing", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 2}})
    agreed = answer(0, {"protocolVersion": version, "info": {}, "authMethods": [{"methodId": "a", "name": "A"}]})

    assert play(normaliser, "incoming", agreed) == [agreed]

    question = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "session/request_permission",
        "params": {"sessionId": "s", "title": "May I?", "options": [{"optionId": "o", "name": "O", "kind": "deny"}]},
    }
    frame = frame_of(question)
    assert normaliser.incoming(frame)[0] is frame
    assert normaliser.outgoing(frame)[0] is frame


def test_nothing_of_an_agent_that_answers_a_later_version_is_rewritten() -> None:
    normaliser = Normaliser("seed-004", "agent")
    play(normaliser, "incoming", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 2}})
    play(normaliser, "outgoing", answer(0, {"protocolVersion": 2}))

    assert play(normaliser, "outgoing", chunk("hi")) == [chunk("hi")]


@pytest.mark.parametrize("version", [1, True, "1", None])
def test_any_other_answer_to_initialize_means_v1(version: Any) -> None:
    normaliser = Normaliser(None, "client")
    play(normaliser, "outgoing", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
    play(normaliser, "incoming", answer(0, {"protocolVersion": version}))
    play(normaliser, "outgoing", {"jsonrpc": "2.0", "id": 1, "method": "session/set_mode", "params": {}})

    assert play(normaliser, "incoming", answer(1, None)) == [answer(1, {})]


def test_an_answer_is_matched_by_its_exact_id_and_only_once() -> None:
    normaliser = Normaliser(None, "agent")
    play(normaliser, "outgoing", WRITE)

    assert play(normaliser, "incoming", answer("1", None)) == [answer("1", None)]
    assert play(normaliser, "incoming", answer(1, None)) == [answer(1, {})]
    assert play(normaliser, "incoming", answer(1, None)) == [answer(1, None)]


def test_ids_of_the_two_directions_do_not_collide() -> None:
    normaliser = Normaliser("seed-004", "client")
    play(normaliser, "outgoing", {"jsonrpc": "2.0", "id": 1, "method": "terminal/output", "params": {}})
    play(normaliser, "incoming", WRITE)

    assert play(normaliser, "incoming", answer(1, None)) == [answer(1, None)]
    assert play(normaliser, "outgoing", answer(1, {})) == [answer(1, None)]


def test_an_id_used_twice_stands_for_the_request_that_came_first() -> None:
    normaliser = Normaliser("seed-004", "client")
    play(normaliser, "incoming", WRITE)
    play(normaliser, "incoming", {"jsonrpc": "2.0", "id": 1, "method": "terminal/output", "params": {}})

    assert play(normaliser, "outgoing", answer(1, {})) == [answer(1, None)]


def test_requests_that_are_never_answered_are_forgotten_oldest_first() -> None:
    normaliser = Normaliser(None, "agent")
    for id in range(MAX_PENDING + 1):
        play(normaliser, "outgoing", {**WRITE, "id": id})

    assert play(normaliser, "incoming", answer(0, None)) == [answer(0, None)]
    assert play(normaliser, "incoming", answer(1, None)) == [answer(1, {})]
    assert play(normaliser, "incoming", answer(MAX_PENDING, None)) == [answer(MAX_PENDING, {})]


def test_each_rule_is_logged_once_by_its_name_and_counted_each_time(caplog: pytest.LogCaptureFixture) -> None:
    normaliser = Normaliser(None, "client")
    with caplog.at_level(logging.INFO, "duologue.compat"):
        for _ in range(3):
            play(normaliser, "incoming", {**chunk(""), "params": {"update": {"type": "plan", "entries": []}}})

    assert normaliser.hits == {"update-tag": 3}
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "rewriting for an older dialect: update-tag")
    ]


def test_credentials_reach_the_agent_that_validates_them_and_neither_the_log_nor_any_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = "s3cret-f0r-nobody"
    login = {"jsonrpc": "2.0", "id": 1, "method": "authenticate", "params": {"methodId": "key"}}
    with caplog.at_level(logging.DEBUG):
        for dialect in ("seed-003", None):
            normaliser = Normaliser(dialect, "client", credentials=lambda _: {"apiKey": secret})
            assert play(normaliser, "outgoing", login) == [login]
        with_credentials = Normaliser("seed-004", "client", credentials=lambda _: {"apiKey": secret})
        [written] = play(with_credentials, "outgoing", login)
        assert written["params"]["credentials"] == {"apiKey": secret}
        [read] = play(Normaliser(None, "agent"), "incoming", written)
        assert read["params"] == {"methodId": "key", "_meta": {"seed-004": {"credentials": {"apiKey": secret}}}}

    assert secret not in caplog.text


@pytest.mark.fault("WLD-13")
def test_credentials_are_in_no_recording() -> None:
    login = {"methodId": "key", "credentials": {"apiKey": "s3cret"}}
    [read] = play(
        Normaliser(None, "agent"), "incoming", {"jsonrpc": "2.0", "id": 1, "method": "authenticate", "params": login}
    )

    assert "s3cret" in str(read)
    assert "s3cret" not in str(redact(read))


@pytest.mark.parametrize("params", [{}, {"methodId": 7}, {"methodId": "unknown"}])
def test_a_host_without_credentials_for_a_method_sends_none(params: dict[str, Any]) -> None:
    login = {"jsonrpc": "2.0", "id": 1, "method": "authenticate", "params": params}

    assert play(Normaliser("seed-004", "client", credentials=lambda _: None), "outgoing", login) == [login]
    assert play(Normaliser("seed-004", "client"), "outgoing", login) == [login]


def test_text_of_one_session_is_not_taken_for_that_of_another() -> None:
    normaliser = Normaliser(None, "client")
    play(normaliser, "outgoing", PROMPT)
    play(normaliser, "outgoing", {**PROMPT, "id": 4, "params": {"sessionId": "t", "prompt": []}})
    play(normaliser, "incoming", chunk("hi", "t"))
    response = {"content": [{"type": "text", "text": "hi"}]}

    assert play(normaliser, "incoming", answer(3, response)) == [chunk("hi"), answer(3, {"stopReason": "end_turn"})]
    assert play(normaliser, "incoming", answer(4, response)) == [answer(4, {"stopReason": "end_turn"})]


def test_text_before_a_queued_prompt_belongs_to_the_running_prompt() -> None:
    normaliser = Normaliser(None, "client")
    play(normaliser, "outgoing", PROMPT)
    play(normaliser, "outgoing", {**PROMPT, "id": 4})
    play(normaliser, "incoming", chunk("one"))
    response = {"content": [{"type": "text", "text": "one"}]}

    assert play(normaliser, "incoming", answer(3, response)) == [answer(3, {"stopReason": "end_turn"})]
    assert play(normaliser, "incoming", answer(4, response)) == [chunk("one"), answer(4, {"stopReason": "end_turn"})]


def test_a_turn_with_too_much_text_is_not_repeated_to_the_client() -> None:
    normaliser = Normaliser("seed-003", "agent")
    play(normaliser, "incoming", PROMPT)
    for _ in range(5):
        play(normaliser, "outgoing", chunk("x" * 2**20))

    assert play(normaliser, "outgoing", answer(3, {"stopReason": "end_turn"})) == [
        answer(3, {"stopReason": "end_turn"})
    ]


def test_a_turn_with_too_much_text_is_repeated_rather_than_lost() -> None:
    normaliser = Normaliser(None, "client")
    play(normaliser, "outgoing", PROMPT)
    for _ in range(5):
        play(normaliser, "incoming", chunk("x" * 2**20))
    response = {"content": [{"type": "text", "text": "x"}]}

    assert play(normaliser, "incoming", answer(3, response)) == [chunk("x"), answer(3, {"stopReason": "end_turn"})]


def test_blocks_other_than_text_are_compared_as_they_are() -> None:
    normaliser = Normaliser(None, "client")
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    noted = {"type": "text", "text": "b", "annotations": {"priority": 1}}
    play(normaliser, "outgoing", PROMPT)
    for block in ({"type": "text", "text": "a"}, image, noted, {"type": "text", "text": " "}):
        update = {"sessionUpdate": "agent_message_chunk", "content": block}
        play(normaliser, "incoming", {**chunk(""), "params": {"sessionId": "s", "update": update}})
    response = {"content": [{"type": "text", "text": "a"}, image, noted]}

    assert play(normaliser, "incoming", answer(3, response)) == [answer(3, {"stopReason": "end_turn"})]


def test_the_oldest_session_is_forgotten_before_memory_grows() -> None:
    normaliser = Normaliser(None, "client")
    option = {"id": "o", "currentValue": "old"}
    for number in range(65):
        update = {"sessionUpdate": "config_option_update", "configOptions": [option]}
        play(normaliser, "incoming", {**chunk(""), "params": {"sessionId": f"s{number}", "update": update}})
    change = {"configId": "o", "value": "new"}
    for id, session_id in ((1, "s0"), (2, "s64")):
        params = {"sessionId": session_id, **change}
        play(normaliser, "outgoing", {**PROMPT, "id": id, "method": "session/set_config_option", "params": params})

    assert play(normaliser, "incoming", answer(1, None)) == [answer(1, {"configOptions": []})]
    assert play(normaliser, "incoming", answer(2, None)) == [
        answer(2, {"configOptions": [{"id": "o", "currentValue": "new"}]})
    ]


def test_a_list_of_options_that_is_too_long_is_not_remembered() -> None:
    normaliser = Normaliser(None, "client")
    for description in ("short", "x" * 2**18):
        options = [{"id": "o", "currentValue": "old", "description": description}]
        update = {"sessionUpdate": "config_option_update", "configOptions": options}
        play(normaliser, "incoming", {**chunk(""), "params": {"sessionId": "s", "update": update}})
    change = {"sessionId": "s", "configId": "o", "value": "new"}
    play(normaliser, "outgoing", {**PROMPT, "id": 1, "method": "session/set_config_option", "params": change})

    assert play(normaliser, "incoming", answer(1, None)) == [answer(1, {"configOptions": []})]


def test_numbers_and_unknown_members_survive_a_rewrite() -> None:
    big = 123456789012345678901234567890
    update = {"type": "tool_call", "toolCallId": "t", "title": "T", "rawInput": {"n": big, "x": None}, "_new": [1.5]}
    message = {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "s", "update": update, "_meta": {}},
    }
    [read] = play(Normaliser(None, "client"), "incoming", message)

    assert read["params"]["_meta"] == {}
    assert read["params"]["update"] == {
        "toolCallId": "t",
        "title": "T",
        "rawInput": {"n": big, "x": None},
        "_new": [1.5],
        "sessionUpdate": "tool_call",
    }


WORDS = sorted(
    {
        *("sessionUpdate", "type", "update", "content", "options", "option", "toolCall", "title", "message", "role"),
        *("location", "locations", "status", "running", "agent", "text", "image", "diff", "terminal", "source"),
        *("mcpServers", "env", "headers", "transport", "stdio", "command", "url", "modes", "availableModes", "models"),
        *("availableModels", "configOptions", "configId", "id", "name", "kind", "deny", "label", "optionId", "_meta"),
        *("outcome", "selected", "selectedOptionId", "stopReason", "output", "exitCode", "exitStatus", "signal"),
        *("agentCapabilities", "mcpCapabilities", "supportedTransports", "authMethods", "authenticationMethods"),
        *("clientCapabilities", "tool_call", "tool_call_update", "current_mode_update", "agent_message_chunk"),
        *("sessionId", "value", "category", "model", "select", "seed-004", "seed-001", "code", "data", "base64"),
        *("modeId", "currentModeId", "methodId", "credentials", "prompt", "truncated", "timeout", "location"),
    }
)
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, 1, -32001, -32004, -32603, 1.5]) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    """Draw the value with one part replaced."""
    inner: dict[Any, Any] = as_object(value) or dict(enumerate(objects(value)))
    if not inner or draw(st.integers(0, 4)) == 0:
        return draw(anything)
    if isinstance(value, dict) and draw(st.integers(0, 4)) == 0:
        return {**inner, draw(st.sampled_from(WORDS)): draw(anything)}
    key: Any = draw(st.sampled_from(sorted(inner)))
    changed = {**inner, key: draw(damaged(inner[key]))}
    return changed if isinstance(value, dict) else list(changed.values())


@st.composite
def damaged_vectors(draw: st.DrawFn) -> tuple[Vector, dict[str, Any]]:
    vector = draw(st.sampled_from(VECTORS))
    part = next(part for part in ("params", "result", "error") if part in vector.before)
    return vector, {**vector.before, part: draw(damaged(vector.before[part]))}


VECTORS = load_vectors()


@given(damaged_vectors())
def test_malformed_messages_break_nothing_and_reading_twice_changes_nothing(
    damage: tuple[Vector, dict[str, Any]],
) -> None:
    vector, message = damage
    became = play(vector.normaliser(), vector.direction, message)
    if vector.direction == "incoming":
        again = vector.normaliser()
        assert [frame for one in became for frame in play(again, "incoming", one)] == became


def test_a_tool_call_is_remembered_without_an_input_that_is_too_long() -> None:
    known = PeerContext()
    known.remember_tool_call("s", {"toolCallId": "t", "title": "Read", "rawInput": "x" * (MAX_INPUT_BYTES + 1)})

    assert known.tool_calls.get(("s", "t"), {}) == {"title": "Read"}
