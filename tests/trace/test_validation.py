"""The rules of `trace validate`: each finds its violation, and a good conversation has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duologue.recording.reader import RecordingReader
from duologue.trace import remembered
from duologue.trace.frames import Tracer
from duologue.trace.validation import RuleFinding, Validator, selected_rules, validate
from tests.trace.recorded_run import HEADER, RecordedRun, handshake, whole_run


def findings_of(run: RecordedRun) -> list[RuleFinding]:
    validator = Validator()
    found = [finding for frame in Tracer().trace(run.entries) for finding in validator.check(frame)]
    return [*found, *validator.finish()]


def names(run: RecordedRun) -> list[str]:
    return [finding.rule for finding in findings_of(run)]


def use_terminal(run: RecordedRun, action: str, terminal: str = "t1") -> RecordedRun:
    params: dict[str, Any] = {"sessionId": run.session, "terminalId": terminal}
    results = {"output": {"output": "", "truncated": False}}
    return run.request("to_client", f"terminal/{action}", params, results.get(action, {}))


def opened() -> RecordedRun:
    return RecordedRun().opened()


def test_a_good_conversation_has_no_findings() -> None:
    run = whole_run()
    params = {"sessionId": "s1", "command": "ls"}
    run.request("to_client", "terminal/create", params, {"terminalId": "t1"})
    use_terminal(use_terminal(run, "output"), "release")

    assert findings_of(run) == []


def test_the_good_conversation_of_version_2_has_no_findings() -> None:
    run = RecordedRun().opened(2).prompt("hi")
    run.frame("to_client", id=3, result={"messageId": "m1"}).update("user_message", messageId="m1")
    run.update("state_update", state="running").update("tool_call_update", toolCallId="c", title="t")
    run.update("state_update", state="idle", stopReason="end_turn").prompt("again")
    run.frame("to_client", id=4, result={"messageId": "m2"})

    assert names(run) == []


def _in_session(run: RecordedRun, session: str) -> RecordedRun:
    run.session = session
    return run


def test_the_side_that_owes_a_response_is_named() -> None:
    run = opened().frame("to_client", id=7, method="fs/read_text_file", params={"sessionId": "s1", "path": "/a"})

    assert [(each.side, each.frames) for each in findings_of(run)] == [("client", (5,))]


def test_a_permission_for_an_unknown_tool_call_is_found() -> None:
    assert names(opened().permission("c")) == ["tool-call-known"]


def test_a_released_terminal_is_not_used_again() -> None:
    run = opened().request("to_client", "terminal/create", {"sessionId": "s1", "command": "ls"}, {"terminalId": "t1"})
    (finding,) = findings_of(use_terminal(use_terminal(run, "release"), "kill"))

    assert "was released" in finding.message


def test_a_closed_session_gets_no_requests_but_may_send_late_updates() -> None:
    run = opened().request("to_agent", "session/close", {"sessionId": "s1"}, {}).text("late")
    run.request("to_agent", "session/set_mode", {"sessionId": "s1", "modeId": "x"}, {})
    (finding,) = findings_of(run)

    assert (finding.rule, "closed" in finding.message) == ("session-known", True)
    run.request("to_agent", "session/resume", {"sessionId": "s1", "cwd": "/", "mcpServers": []}, {}).prompt("hi").stop()
    assert len(findings_of(run)) == 1


def test_a_replay_is_no_late_update_and_may_use_ids_again() -> None:
    run = opened().prompt("hi").update("tool_call", toolCallId="c", title="t")
    chunk = {"content": {"type": "text", "text": "x"}}
    run.update("agent_message_chunk", messageId="m1", **chunk).update("agent_message_chunk", messageId="m2", **chunk)
    run.frame("to_agent", method="session/cancel", params={"sessionId": "s1"}).stop("cancelled")
    params: dict[str, Any] = {"sessionId": "s1", "cwd": "/", "mcpServers": []}
    run.frame("to_agent", id=9, method="session/load", params=params).update("tool_call", toolCallId="c", title="t")
    run.update("agent_message_chunk", messageId="m1", **chunk).frame("to_client", id=9, result={})

    assert names(run) == []


def test_sessions_of_subagents_are_known() -> None:
    run = opened().update("subagent_update", sessionId="s2", title="child")

    assert names(_in_session(run, "s2").text("x")) == []


def test_missing_messages_are_no_mistake_of_a_side() -> None:
    run = RecordedRun().other(gap=5).text("x").update("tool_call_update", toolCallId="c", title="t")
    use_terminal(run, "output").frame("to_client", id=99, result={})

    assert names(run) == []


def test_an_error_without_an_id_answers_what_could_not_be_read() -> None:
    assert names(opened().frame("to_client", id=None, error={"code": -32700, "message": "Parse error"})) == []


def test_a_client_may_start_an_older_agent_again_with_its_version() -> None:
    older = {"protocolVersion": 1, "agentInfo": {"name": "gem", "version": "0.8"}}
    run = RecordedRun().request("to_agent", "initialize", handshake(2)[0], older)

    assert names(run.opened()) == []
    assert names(run.opened()) == ["initialize-once"]


def test_a_new_process_begins_a_new_connection() -> None:
    run = opened().prompt("hi").other(exit_code=1).opened()

    assert names(run) == ["unanswered-request"]


def test_each_part_that_was_appended_is_a_connection(tmp_path: Path) -> None:
    path = opened().save(tmp_path / "run.acp")
    with path.open("ab") as file:
        file.write(HEADER.encode() + path.read_bytes().partition(b"\n")[2])
    with RecordingReader(path) as reader:
        assert list(validate(reader)) == []


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(ValueError, match="there is no rule 'sschema'"):
        selected_rules(["sschema"])
    with pytest.raises(ValueError, match="recordings cannot show violations of the rule 'slow-reader'"):
        selected_rules(["slow-reader"])


def test_observed_rules_are_reported_for_each_side_and_each_connection() -> None:
    validator = Validator()
    run = opened().prompt("hi").stop().other(exit_code=0).opened()
    for frame in Tracer().trace(run.entries):
        assert list(validator.check(frame)) == []

    assert {171, 35} <= validator.observed_by("client")
    assert 75 in validator.observed_by("agent") - validator.observed_by("client")
    assert 75 in validator.observed - validator.observed_in_connection
    assert 47 in validator.observed_in_connection
    assert 79 not in validator.observed


def test_hostile_recordings_need_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MAX_REMEMBERED", 10)
    run, validator = opened(), Validator()
    for number in range(100):
        run.frame("to_agent", id=f"a{number}", method="session/new", params={"cwd": "/", "mcpServers": []})
        run.frame("to_client", id=f"a{number}", result={"sessionId": f"n{number}"})
        run.frame("to_agent", id=f"b{number}", method="session/list", params={})
        run.update("tool_call", toolCallId=str(number), title="t")
    run.raw("to_client", b'{"method":"session/update","params":' + b"[" * 9000 + b"]" * 9000 + b"}")
    for frame in Tracer().trace(run.entries):
        list(validator.check(frame))

    assert len(validator._wire.requests) <= 10
    assert len(validator._wire.sessions) <= 10
    assert validator._wire.is_partial
