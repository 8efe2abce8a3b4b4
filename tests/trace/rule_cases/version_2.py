"""Cases of what only version 2 has: states, messages of prompts, background work."""

from __future__ import annotations

from typing import Any

from tests.trace.recorded_run import OPTIONS, RecordedRun
from tests.trace.rule_cases.table import ask, cancel, case, load, opened


def state(run: RecordedRun, name: str, **members: Any) -> RecordedRun:
    return run.update("state_update", state=name, **members)


def prompted(run: RecordedRun, *, is_echoed: bool = True) -> RecordedRun:
    """Add a prompt that is inserted as `m1`."""
    run.prompt("hi").frame("to_client", id=run._prompt_id, result={"messageId": "m1"})
    content = [{"type": "text", "text": "hi"}]
    return run.update("user_message", messageId="m1", content=content) if is_echoed else run


def working(run: RecordedRun) -> RecordedRun:
    return state(prompted(run), "running")


def answered(run: RecordedRun) -> RecordedRun:
    return run.update("agent_message", messageId="m2", content=[{"type": "text", "text": "x"}])


@case(141)
def echo(bad: bool) -> RecordedRun:
    run = answered(state(prompted(opened(2), is_echoed=not bad), "running"))
    return state(run, "idle", stopReason="end_turn")


@case(141, "missing")
def no_message_id(bad: bool) -> RecordedRun:
    return ask(opened(2), "session/prompt", {} if bad else {"messageId": "m1"}, prompt=[{"type": "text", "text": "x"}])


@case(142)
def running(bad: bool) -> RecordedRun:
    run = prompted(opened(2))
    return state(answered(run if bad else state(run, "running")), "idle", stopReason="end_turn")


@case(143)
def cancelled(bad: bool) -> RecordedRun:
    return state(cancel(working(opened(2))), "idle", stopReason="error" if bad else "cancelled")


@case(144)
def closed(bad: bool) -> RecordedRun:
    run = working(opened(2)).frame("to_agent", id="c", method="session/close", params={"sessionId": "s1"})
    return (run if bad else state(run, "idle", stopReason="cancelled")).frame("to_client", id="c", result={})


@case(145)
def resumed(bad: bool) -> RecordedRun:
    run = load(opened(2), "session/resume")
    return (run if bad else state(run, "idle")).frame("to_client", id="load", result={})


@case(146)
def replay(bad: bool) -> RecordedRun:
    run = load(opened(2), "session/resume")
    return state(answered(run) if bad else run, "idle").frame("to_client", id="load", result={})


@case(150)
def background(bad: bool) -> RecordedRun:
    run = state(opened(2), "running", background=[])
    return state(run, "idle", **({} if bad else {"background": []}))


@case(179)
def withdrawn(bad: bool) -> RecordedRun:
    run = working(opened(2))
    params = {"sessionId": "s1", "title": "May I?", "options": OPTIONS}
    cancel(run.frame("to_client", id="p", method="session/request_permission", params=params))
    if not bad:
        run.frame("to_client", method="$/cancel_request", params={"requestId": "p"})
    state(run, "idle", stopReason="cancelled")
    return run.frame("to_agent", id="p", result={"outcome": {"outcome": "cancelled"}})


@case(186)
def options(bad: bool) -> RecordedRun:
    offered = [OPTIONS[0], OPTIONS[1] | ({"optionId": "a"} if bad else {})]
    result = {"outcome": {"outcome": "cancelled"}}
    params = {"sessionId": "s1", "title": "May I?", "options": offered}
    return opened(2).request("to_client", "session/request_permission", params, result)


@case(187)
def commands(bad: bool) -> RecordedRun:
    command = {"type": "command", "name": "create plan" if bad else "create_plan", "description": "x"}
    return opened(2).update("available_commands_update", availableCommands=[command])
