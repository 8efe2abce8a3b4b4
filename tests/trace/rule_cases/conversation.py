"""Cases of sessions, turns, tool calls and what belongs to them, in version 1."""

from __future__ import annotations

from typing import Any

from tests.trace.recorded_run import OPTIONS, RecordedRun
from tests.trace.rule_cases.table import ask, call, cancel, case, error, load, new, opened

MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
SELECT = {
    "id": "m", "name": "Mode", "category": "mode", "type": "select", "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}  # fmt: skip
DONE = {"stopReason": "end_turn"}


def chunk(run: RecordedRun, message: str | None = None, kind: str = "agent_message_chunk") -> RecordedRun:
    named = {} if message is None else {"messageId": message}
    return run.update(kind, content={"type": "text", "text": "x"}, **named)


def listed(run: RecordedRun, *sessions: str, cwd: str = "/project", **params: Any) -> RecordedRun:
    found = [{"sessionId": session, "cwd": cwd} for session in sessions]
    return run.request("to_agent", "session/list", params, {"sessions": found})


def terminal(run: RecordedRun, **params: Any) -> RecordedRun:
    return call(run, "terminal/create", {"terminalId": "t1"}, command="ls", **params)


def use(run: RecordedRun, action: str, result: Any = None) -> RecordedRun:
    return call(run, f"terminal/{action}", {} if result is None else result, terminalId="t1")


# --- sessions


@case(44)
def cwd(bad: bool) -> RecordedRun:
    return new(opened(), cwd="project" if bad else "C:\\project")


@case(45)
def path(bad: bool) -> RecordedRun:
    return call(opened(), "fs/read_text_file", {"content": ""}, path="a.py" if bad else "/a.py")


@case(45, "location")
def location(bad: bool) -> RecordedRun:
    where = [{"path": "a.py" if bad else "/a.py"}]
    return opened().update("tool_call", toolCallId="c", title="t", locations=where)


@case(47)
def unique_session(bad: bool) -> RecordedRun:
    return new(opened(), {"sessionId": "s1" if bad else "s2"})


@case(49)
def mcp_servers(bad: bool) -> RecordedRun:
    return new(opened(), mcpServers=None if bad else [])


@case(151)
def mcp_command(bad: bool) -> RecordedRun:
    server: dict[str, Any] = {"name": "x", "command": "npx" if bad else "/usr/bin/npx", "args": [], "env": []}
    return new(opened(), mcpServers=[server])


@case(56)
def replay_first(bad: bool) -> RecordedRun:
    run = load(opened())
    if not bad:
        chunk(run, kind="user_message_chunk")
    run.frame("to_client", id="load", result={})
    return chunk(run, kind="user_message_chunk") if bad else run


@case(57)
def replay_session(bad: bool) -> RecordedRun:
    run = load(opened())
    run.session = "other" if bad else "old"
    return chunk(run, kind="user_message_chunk").frame("to_client", id="load", result={})


@case(60)
def resume_replay(bad: bool) -> RecordedRun:
    run = load(opened(), "session/resume")
    return (chunk(run) if bad else run).frame("to_client", id="load", result={})


@case(126)
def notice_replayed(bad: bool) -> RecordedRun:
    run = load(opened())
    run = run.update("notice", severity="info", title="x") if bad else chunk(run)
    return run.frame("to_client", id="load", result={})


@case(66)
def empty_list(bad: bool) -> RecordedRun:
    return opened().request("to_agent", "session/list", {}, {} if bad else {"sessions": []})


@case(67)
def list_filter(bad: bool) -> RecordedRun:
    found = {"sessionId": "s1", "cwd": "/project/sub" if bad else "/project"}
    return opened().request("to_agent", "session/list", {"cwd": "/project"}, {"sessions": [found]})


@case(68)
def cursor(bad: bool) -> RecordedRun:
    run = opened().request("to_agent", "session/list", {}, {"sessions": [], "nextCursor": "2"})
    return listed(run, cursor="3" if bad else "2")


@case(72)
def delete_again(bad: bool) -> RecordedRun:
    return ask(ask(opened(), "session/delete", {}), "session/delete", error(-32002) if bad else {})


@case(73)
def deleted_listed(bad: bool) -> RecordedRun:
    return listed(ask(opened(), "session/delete", {}), *(["s1"] if bad else ["s2"]))


@case(74)
def prompt_after_setup(bad: bool) -> RecordedRun:
    run = opened()
    run.session = "s9" if bad else "s1"
    return run.prompt("hi").stop()


@case(169)
def known_session(bad: bool) -> RecordedRun:
    run = opened()
    run.session = "s9" if bad else "s1"
    return chunk(chunk(run))


@case(170)
def update_after_session(bad: bool) -> RecordedRun:
    run = opened().frame("to_agent", id=7, method="session/new", params={"cwd": "/", "mcpServers": []})
    run.session = "s2"
    if bad:
        chunk(run)
    run.frame("to_client", id=7, result={"sessionId": "s2"})
    return run if bad else chunk(run)


# --- turns


@case(75)
def stop_reason(bad: bool) -> RecordedRun:
    return opened().prompt("hi").stop("done" if bad else "end_turn")


@case(75, "missing")
def no_stop_reason(bad: bool) -> RecordedRun:
    return ask(opened(), "session/prompt", {} if bad else DONE, prompt=[{"type": "text", "text": "hi"}])


@case(76)
def late_chunk(bad: bool) -> RecordedRun:
    run = chunk(opened().prompt("hi"), "m1").stop()
    return chunk(run, "m1" if bad else "m2")


@case(77)
def cancel_error(bad: bool) -> RecordedRun:
    run = cancel(opened().prompt("hi"))
    return run.frame("to_client", id=3, error=error(-32603)) if bad else run.stop("cancelled")


@case(78)
def late_after_cancel(bad: bool) -> RecordedRun:
    run = cancel(opened().prompt("hi"))
    return chunk(run.stop("cancelled")) if bad else chunk(run).stop("cancelled")


@case(79)
def permission_cancelled(bad: bool) -> RecordedRun:
    run = opened().prompt("hi").update("tool_call", toolCallId="c", title="t")
    params = {"sessionId": "s1", "toolCall": {"toolCallId": "c"}, "options": OPTIONS}
    cancel(run.frame("to_client", id="p", method="session/request_permission", params=params))
    outcome = {"outcome": "selected", "optionId": "r"} if bad else {"outcome": "cancelled"}
    return run.frame("to_agent", id="p", result={"outcome": outcome}).stop("cancelled")


@case(171)
def one_prompt(bad: bool) -> RecordedRun:
    run = opened().prompt("a")
    if not bad:
        run.stop()
    run.prompt("b").stop()
    return run.frame("to_client", id=3, result=DONE) if bad else run


# --- tool calls and messages


@case(88)
def tool_known(bad: bool) -> RecordedRun:
    run = opened() if bad else opened().update("tool_call", toolCallId="c", title="t")
    return run.update("tool_call_update", toolCallId="c", title="t")


@case(88, "permission")
def tool_of_permission(bad: bool) -> RecordedRun:
    return (opened() if bad else opened().update("tool_call", toolCallId="c", title="t")).permission("c")


@case(89)
def tool_unique(bad: bool) -> RecordedRun:
    run = opened().update("tool_call", toolCallId="c", title="t")
    return run.update("tool_call", toolCallId="c" if bad else "d", title="t")


@case(90)
def tool_status(bad: bool) -> RecordedRun:
    return opened().update("tool_call", toolCallId="c", title="t", status="running" if bad else "in_progress")


@case(93)
def tool_finished(bad: bool) -> RecordedRun:
    run = opened().prompt("hi").update("tool_call", toolCallId="c", title="t").permission("c")
    return run.update("tool_call_update", toolCallId="c", status="in_progress" if bad else "completed").stop()


@case(94)
def message_ids(bad: bool) -> RecordedRun:
    return chunk(chunk(chunk(opened(), "m1"), "m2"), "m1" if bad else "m2")


@case(97)
def usage_values(bad: bool) -> RecordedRun:
    return opened().update("usage_update", used=None if bad else 5, size=10)


@case(97, "cost")
def cost_values(bad: bool) -> RecordedRun:
    return opened().update("usage_update", used=5, size=10, cost={"amount": 1} | ({} if bad else {"currency": "USD"}))


@case(98)
def offered_option(bad: bool) -> RecordedRun:
    return opened().update("tool_call", toolCallId="c", title="t").permission("c", chosen="Allow once" if bad else "a")


@case(125)
def compaction(bad: bool) -> RecordedRun:
    run = opened().update("compaction_update", compactionId="c", status="completed")
    return run.update("compaction_update", compactionId="c" if bad else "d", status="in_progress")


@case(177)
def usage_of_turn(bad: bool) -> RecordedRun:
    run = opened()
    for number in range(1, 10):
        tokens = number if bad else number % 3
        usage = {"totalTokens": tokens * 20, "inputTokens": tokens * 10, "outputTokens": tokens * 10}
        run.prompt("hi").frame("to_client", id=run._prompt_id, result=DONE | {"usage": usage})
    return run


@case(178)
def cost_grows(bad: bool) -> RecordedRun:
    for_amounts = opened()
    for amount in (1.0, 0.5 if bad else 1.5):
        for_amounts.update("usage_update", used=5, size=10, cost={"amount": amount, "currency": "USD"})
    return for_amounts


# --- files and terminals


@case(102)
def read_window(bad: bool) -> RecordedRun:
    return call(opened(), "fs/read_text_file", {"content": "a\nb\n" if bad else "a\n"}, path="/a", limit=1)


@case(107)
def truncation(bad: bool) -> RecordedRun:
    run = terminal(opened(), outputByteLimit=4)
    return use(run, "output", {"output": "äää" if bad else "ää", "truncated": True})


@case(109)
def exit_status(bad: bool) -> RecordedRun:
    run = use(terminal(opened()), "wait_for_exit", {"exitCode": 0, "signal": "SIGTERM" if bad else None})
    return use(run, "release")


@case(110)
def killed(bad: bool) -> RecordedRun:
    run = use(terminal(opened()), "kill")
    return use(run, "output", error(-32002) if bad else {"output": "", "truncated": False})


@case(112)
def released(bad: bool) -> RecordedRun:
    run = use(terminal(opened()), "wait_for_exit", {"exitCode": 0})
    return run if bad else use(run, "release")


@case(113)
def embedded(bad: bool) -> RecordedRun:
    run, content = terminal(opened()), [{"type": "terminal", "terminalId": "t1"}]
    if not bad:
        return use(run.update("tool_call", toolCallId="c", title="t", content=content), "release")
    return use(run, "release").update("tool_call", toolCallId="c", title="t", content=content)


@case(173)
def terminal_known(bad: bool) -> RecordedRun:
    return use(opened() if bad else terminal(opened()), "output", {"output": "", "truncated": False})


@case(173, "embedded")
def embedded_known(bad: bool) -> RecordedRun:
    run = opened() if bad else terminal(opened())
    content = [{"type": "terminal", "terminalId": "t1"}]
    run.update("tool_call", toolCallId="c", title="t", content=content)
    return run if bad else use(run, "kill")


# --- settings and elicitation


@case(115)
def unknown_mode(bad: bool) -> RecordedRun:
    run = new(opened(), {"modes": MODES})
    run.session = "s2"
    return ask(run, "session/set_mode", {} if bad else error(-32602), modeId="x")


@case(116)
def mode_update(bad: bool) -> RecordedRun:
    return opened().update("current_mode_update", **({} if bad else {"currentModeId": "ask"}))


@case(117)
def modes_in_sync(bad: bool) -> RecordedRun:
    return new(opened(), {"modes": MODES, "configOptions": [SELECT | {"currentValue": "code" if bad else "ask"}]})


@case(119)
def config_complete(bad: bool) -> RecordedRun:
    run = opened().update("config_option_update", configOptions=[SELECT])
    result = {"configOptions": [] if bad else [SELECT]}
    return ask(run, "session/set_config_option", result, configId="m", value="code")


@case(120)
def config_unknown(bad: bool) -> RecordedRun:
    run = opened().update("config_option_update", configOptions=[SELECT])
    result = {"configOptions": [SELECT]} if bad else error(-32602)
    return ask(run, "session/set_config_option", result, configId="m", value="x")


@case(121)
def config_value(bad: bool) -> RecordedRun:
    option = {name: value for name, value in SELECT.items() if not (bad and name == "currentValue")}
    return opened().update("config_option_update", configOptions=[option])


def elicit(run: RecordedRun, result: Any, **params: Any) -> RecordedRun:
    return call(run, "elicitation/create", result, message="x", **params)


@case(131)
def elicitation_id(bad: bool) -> RecordedRun:
    run = elicit(opened(), {"action": "accept"}, mode="url", elicitationId="e", url="https://example.com")
    return run.frame("to_client", method="elicitation/complete", params={"elicitationId": "x" if bad else "e"})


@case(131, "twice")
def elicitation_twice(bad: bool) -> RecordedRun:
    run = elicit(opened(), {"action": "accept"}, mode="url", elicitationId="e", url="https://example.com")
    return elicit(run, {"action": "decline"}, mode="url", elicitationId="e" if bad else "f", url="https://example.com")


@case(131, "declined")
def elicitation_declined(bad: bool) -> RecordedRun:
    run = elicit(opened(), {"action": "decline"}, mode="url", elicitationId="e", url="https://example.com")
    return run.frame("to_client", method="elicitation/complete", params={"elicitationId": "x" if bad else "e"})


@case(134)
def elicitation_content(bad: bool) -> RecordedRun:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return elicit(opened(), {"action": "accept", "content": {} if bad else {"n": 1}}, mode="form", requestedSchema=form)


@case(134, "type")
def elicitation_type(bad: bool) -> RecordedRun:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}}
    content = {"n": "1" if bad else 1}
    return elicit(opened(), {"action": "accept", "content": content}, mode="form", requestedSchema=form)


@case(135)
def elicitation_url(bad: bool) -> RecordedRun:
    url = f"https://{'user:pass@' if bad else ''}example.com"
    return elicit(opened(), {"action": "decline"}, mode="url", elicitationId="e", url=url)
