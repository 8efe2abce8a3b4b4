"""Frames with their meaning: kinds, pairs, latencies, sessions, and what does not match the schema."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Raw

from duologue.recording.format import Entry, FrameDirection
from duologue.trace import frames as frames_module
from duologue.trace.frames import TracedFrame, Tracer

UPDATE = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}


def entry(t: float, direction: FrameDirection, **message: Any) -> Entry:
    return Entry(t=t, dir=direction, frame=Raw(json.dumps({"jsonrpc": "2.0", **message}).encode()))


def traced(*entries: Entry) -> list[TracedFrame]:
    return list(Tracer().trace(entries))


def test_a_response_has_the_method_session_and_latency_of_its_request() -> None:
    request, response, error = traced(
        entry(1.0, "to_agent", id=1, method="session/prompt", params={"sessionId": "s", "prompt": []}),
        entry(1.5, "to_client", id=1, result={"stopReason": "end_turn"}),
        entry(2.0, "to_client", id=1, error={"code": -32000, "message": "no"}),
    )

    assert (request.kind, request.method, request.id, request.session) == ("request", "session/prompt", 1, "s")
    assert (response.kind, response.method, response.session) == ("response", "session/prompt", "s")
    assert (response.latency, response.problems, response.answers) == (0.5, (), request.number)
    assert (error.kind, error.method, error.latency, error.answers) == ("error", "", None, None)
    assert error.problems[0].message == "no request with this id is open"


def test_the_same_id_on_both_sides_means_two_requests() -> None:
    _, _, to_client, to_agent = traced(
        entry(0.0, "to_agent", id=1, method="session/list", params={}),
        entry(1.0, "to_client", id=1, method="fs/read_text_file", params={"sessionId": "s", "path": "/a"}),
        entry(2.0, "to_client", id=1, result={"sessions": []}),
        entry(4.0, "to_agent", id=1, result={"content": ""}),
    )

    assert (to_client.method, to_client.latency) == ("session/list", 2.0)
    assert (to_agent.method, to_agent.latency) == ("fs/read_text_file", 3.0)


def test_an_update_says_its_kind_and_session() -> None:
    (update,) = traced(entry(0.0, "to_client", method="session/update", params={"sessionId": "s", "update": UPDATE}))

    assert (update.kind, update.update, update.session, update.problems) == (
        "notification", "agent_message_chunk", "s", (),
    )  # fmt: skip


def test_a_value_that_does_not_match_the_schema_is_named_with_its_path() -> None:
    wrong, unknown = traced(
        entry(0.0, "to_agent", id=1, method="session/new", params={"cwd": 5, "mcpServers": []}),
        entry(0.0, "to_agent", id=2, method="_mine", params={"anything": 1}),
    )

    assert wrong.problems[0].path == "$.params.cwd"
    assert not wrong.problems[0].is_tolerated
    assert unknown.problems == ()


def test_a_value_that_readers_must_accept_is_a_tolerated_problem() -> None:
    _, answer = traced(
        entry(0.0, "to_agent", id=1, method="initialize", params={"protocolVersion": 1}),
        entry(0.0, "to_client", id=1, result={"protocolVersion": 1, "agentCapabilities": {"loadSession": "yes"}}),
    )

    assert [(each.path, each.is_tolerated) for each in answer.problems] == [
        ("$.result.agentCapabilities.loadSession", True)
    ]


def test_messages_of_version_2_are_checked_against_its_schema() -> None:
    state = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
    frames = traced(
        entry(0.0, "to_agent", id=1, method="initialize", params={"protocolVersion": 2, "info": {"name": "c"}}),
        entry(0.0, "to_client", id=1, result={"protocolVersion": 2, "info": {"name": "a", "version": "1"}}),
        entry(0.0, "to_client", method="session/update", params={"sessionId": "s", "update": state}),
    )

    assert [problem for problem in frames[2].problems if not problem.is_tolerated] == []


def test_entries_that_are_no_messages_have_a_kind_of_their_own() -> None:
    kinds = [
        each.kind
        for each in traced(
            Entry(t=1, stderr="x"),
            Entry(t=2, exit_code=0),
            Entry(t=3, gap=4),
            Entry(t=4, dir="to_client", text="Loading"),
            Entry(t=5, dir="to_client", frame=Raw(b"[1]")),
            Entry(t=6, dir="to_client", frame=Raw(b'{"a":1}')),
        )
    ]

    assert kinds == ["stderr", "exit", "gap", "invalid", "invalid", "invalid"]


def test_a_response_after_a_gap_may_answer_a_request_before_it() -> None:
    """It is not known which, so that none is paired wrongly."""
    tracer = Tracer()
    request = entry(0.0, "to_agent", id=1, method="session/list", params={})
    list(tracer.trace([request]))
    assert tracer.open_requests == 1
    list(tracer.trace([Entry(gap=1)]))

    assert tracer.open_requests == 0


def test_requests_that_are_never_answered_need_bounded_memory(monkeypatch: Any) -> None:
    monkeypatch.setattr(frames_module, "MAX_OPEN_REQUESTS", 10)
    tracer = Tracer()
    list(tracer.trace(entry(0.0, "to_agent", id=number, method="m") for number in range(50)))

    assert tracer.open_requests == 10
