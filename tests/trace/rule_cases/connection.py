"""Cases of messages, requests, the handshake and capabilities."""

from __future__ import annotations

from typing import Any

from tests.trace.recorded_run import AGENT, CLIENT, RecordedRun, handshake
from tests.trace.rule_cases.table import ask, call, case, error, new, opened, shaken

TERMINAL = {"id": "t", "name": "Log in", "type": "terminal"}
LOGIN = {"id": "l", "name": "Log in"}
LOGIN_V2 = {"methodId": "l", "name": "Log in", "type": "agent"}


def without(version: int, *path: str, side: dict[int, dict[str, Any]] = AGENT) -> dict[str, Any]:
    """Return the capabilities of a side without one of them."""
    *parents, last = path
    capabilities: dict[str, Any] = dict(side[version])
    parent = capabilities
    for name in parents:
        parent[name] = dict(parent[name])
        parent = parent[name]
    del parent[last]
    return capabilities


@case(1)
def json_rpc(bad: bool) -> RecordedRun:
    return opened().frame("to_client", method="_x", jsonrpc="1.0" if bad else "2.0")


@case(1, "object")
def json_object(bad: bool) -> RecordedRun:
    return opened().raw("to_client", b"{}" if bad else b'{"jsonrpc":"2.0","method":"_x"}')


@case(2)
def utf8(bad: bool) -> RecordedRun:
    text = '{"jsonrpc":"2.0","method":"_x","params":{"a":"\N{REPLACEMENT CHARACTER}"}}'
    return opened().other(dir="to_client", text=text, invalid="not JSON") if bad else opened()


@case(3)
def one_message(bad: bool) -> RecordedRun:
    return opened().other(dir="to_client", text='{"jsonrpc":"2.0"}{"jsonrpc":"2.0"}') if bad else opened()


@case(4)
def stdout(bad: bool) -> RecordedRun:
    return opened().other(dir="to_client", text="[INFO] loading") if bad else opened()


@case(5)
def stdin(bad: bool) -> RecordedRun:
    return opened().other(dir="to_agent", text="hello") if bad else opened()


@case(7)
def same_id(bad: bool) -> RecordedRun:
    run = (
        opened()
        .frame("to_agent", id=7, method="session/list", params={})
        .frame("to_client", id=7, result={"sessions": []})
    )
    return run.frame("to_client", id="7", result={}) if bad else run


@case(8)
def result_or_error(bad: bool) -> RecordedRun:
    run = opened().frame("to_agent", id=7, method="session/list", params={})
    return run.frame("to_client", id=7, result={"sessions": []}, **({"error": error(-32603)} if bad else {}))


@case(18)
def custom_field(bad: bool) -> RecordedRun:
    custom: dict[str, Any] = {"colour": "red"} if bad else {"_meta": {"colour": "red"}}
    return new(opened(), **custom)


@case(19)
def custom_method(bad: bool) -> RecordedRun:
    return opened().frame("to_client", method="weather" if bad else "_weather", params={})


@case(157)
def custom_capability(bad: bool) -> RecordedRun:
    return opened(agent={**AGENT[1], **({"x": {}} if bad else {"_meta": {"x": {}}})})


@case(161)
def schema(bad: bool) -> RecordedRun:
    return opened().update("agent_message_chunk", content=5 if bad else {"type": "text", "text": "x"})


@case(162)
def tolerated(bad: bool) -> RecordedRun:
    return new(opened(), {"modes": 5 if bad else None})


@case(163)
def earlier_field(bad: bool) -> RecordedRun:
    return new(opened(), {"models": {}} if bad else {})


@case(163, "kind")
def unknown_kind(bad: bool) -> RecordedRun:
    return opened().update("weather" if bad else "_weather")


@case(164)
def one_response(bad: bool) -> RecordedRun:
    return opened().frame("to_client", id=2, result={}) if bad else opened()


@case(165)
def duplicate_id(bad: bool) -> RecordedRun:
    run = opened().frame("to_agent", id=7, method="session/list", params={})
    run.frame("to_agent", id=7 if bad else 8, method="session/list", params={}).frame(
        "to_client", id=7, result={"sessions": []}
    )
    return run if bad else run.frame("to_client", id=8, result={"sessions": []})


@case(166)
def unanswered(bad: bool) -> RecordedRun:
    run = opened().frame("to_agent", id=7, method="session/list", params={})
    return run if bad else run.frame("to_client", id=7, result={"sessions": []})


@case(84)
def cancelled_request(bad: bool) -> RecordedRun:
    run = opened().frame("to_agent", id=7, method="session/list", params={})
    run.frame("to_agent", method="$/cancel_request", params={"requestId": 7})
    if not bad:
        run.frame("to_client", id=7, error=error(-32800))
    return run.request("to_agent", "session/list", {}, {"sessions": []})


@case(136)
def null_id_v2(bad: bool) -> RecordedRun:
    run = opened(2).frame("to_agent", id=None if bad else 9, method="session/list", params={})
    return run.frame("to_client", id=None if bad else 9, result={"sessions": []})


@case(175)
def null_id(bad: bool) -> RecordedRun:
    run = opened().frame("to_agent", id=None if bad else 9, method="session/list", params={})
    return run.frame("to_client", id=None if bad else 9, result={"sessions": []})


@case(185)
def reserved_code(bad: bool) -> RecordedRun:
    return opened().request("to_agent", "session/list", {}, error(-32500 if bad else -32603))


# --- the handshake


@case(23)
def initialize_first(bad: bool) -> RecordedRun:
    run = RecordedRun().request("to_agent", "session/list", {}, {"sessions": []}) if bad else RecordedRun()
    return run if bad else run.opened()


@case(24)
def version_number(bad: bool) -> RecordedRun:
    return shaken(offer={"protocolVersion": "1" if bad else 1})


@case(25)
def client_info(bad: bool) -> RecordedRun:
    return shaken(offer={"clientInfo": None} if bad else {})


@case(29)
def agent_info(bad: bool) -> RecordedRun:
    return shaken(result={"agentInfo": None} if bad else {})


@case(138)
def info(bad: bool) -> RecordedRun:
    return shaken(2, offer={"info": None} if bad else {})


@case(138, "agent")
def info_of_agent(bad: bool) -> RecordedRun:
    return shaken(2, result={"info": None} if bad else {})


@case(28)
def unknown_version(bad: bool) -> RecordedRun:
    params, result = handshake(1)
    run = RecordedRun().request("to_agent", "initialize", params | {"protocolVersion": 0}, result)
    return new(run) if bad else run


@case(137)
def version_chosen(bad: bool) -> RecordedRun:
    return shaken(2, offer={"protocolVersion": 1 if bad else 2})


@case(36)
def terminal_login(bad: bool) -> RecordedRun:
    return opened(auth=[TERMINAL], client=without(1, "auth", side=CLIENT) if bad else None)


@case(167)
def initialize_once(bad: bool) -> RecordedRun:
    return opened().opened() if bad else opened()


@case(190)
def archive_and_list(bad: bool) -> RecordedRun:
    return opened(agent=without(1, "sessionCapabilities", "list")) if bad else opened()


# --- logins


@case(37)
def terminal_method(bad: bool) -> RecordedRun:
    return opened(auth=[TERMINAL, LOGIN]).request("to_agent", "authenticate", {"methodId": "t" if bad else "l"}, {})


@case(39)
def logout(bad: bool) -> RecordedRun:
    return opened(agent=without(1, "auth") if bad else None).request("to_agent", "logout", {}, {})


@case(41)
def logged_in(bad: bool) -> RecordedRun:
    run = opened(auth=[LOGIN]).request("to_agent", "authenticate", {"methodId": "l"}, {})
    return run.request("to_agent", "session/list", {}, error(-32000) if bad else {"sessions": []})


@case(139)
def login_methods(bad: bool) -> RecordedRun:
    return opened(2, auth=[] if bad else [LOGIN_V2]).request("to_agent", "auth/login", {"methodId": "l"}, {})


@case(139, "agent")
def login_unknown(bad: bool) -> RecordedRun:
    return opened(2, auth=[LOGIN_V2]).request("to_agent", "auth/logout", {}, error(-32601) if bad else {})


@case(189)
def login_state(bad: bool) -> RecordedRun:
    return opened().request("to_agent", "auth/status", {}, error(-32000) if bad else {"state": "unauthenticated"})


# --- capabilities


@case(30)
def fork(bad: bool) -> RecordedRun:
    run = opened(agent=without(1, "sessionCapabilities", "fork") if bad else None)
    return ask(run, "session/fork", {"sessionId": "s2"}, cwd="/project", mcpServers=[])


@case(30, "session")
def sessions(bad: bool) -> RecordedRun:
    return opened(2, agent={} if bad else None)


@case(33)
def baseline(bad: bool) -> RecordedRun:
    return opened().request(
        "to_agent", "session/new", {"cwd": "/", "mcpServers": []}, error(-32601) if bad else {"sessionId": "s2"}
    )


@case(140)
def session_methods(bad: bool) -> RecordedRun:
    return opened(2).request("to_agent", "session/list", {}, error(-32601) if bad else {"sessions": []})


@case(188)
def advertised(bad: bool) -> RecordedRun:
    return opened().request("to_agent", "session/list", {}, error(-32601) if bad else {"sessions": []})


@case(188, "client")
def advertised_by_client(bad: bool) -> RecordedRun:
    return call(opened(), "fs/read_text_file", error(-32601) if bad else {"content": ""}, path="/a")


@case(35)
def content(bad: bool) -> RecordedRun:
    run = opened(agent=without(1, "promptCapabilities") if bad else None)
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    return ask(run, "session/prompt", {"stopReason": "end_turn"}, prompt=[image])


@case(52)
def transport(bad: bool) -> RecordedRun:
    server: dict[str, Any] = {"type": "http", "name": "x", "url": "http://127.0.0.1", "headers": []}
    return new(opened(agent=without(1, "mcpCapabilities") if bad else None), mcpServers=[server])


@case(52, "v2")
def stdio_transport(bad: bool) -> RecordedRun:
    server: dict[str, Any] = {"type": "stdio", "name": "x", "command": "/bin/x"}
    return new(opened(2, agent=without(2, "session", "mcp") if bad else None), mcpServers=[server])


@case(53)
def directories(bad: bool) -> RecordedRun:
    agent = without(1, "sessionCapabilities", "additionalDirectories") if bad else None
    return new(opened(agent=agent), additionalDirectories=["/lib"])


@case(53, "relative")
def relative_directories(bad: bool) -> RecordedRun:
    return new(opened(), additionalDirectories=["lib" if bad else "/lib"])


@case(55)
def load_advertised(bad: bool) -> RecordedRun:
    run = opened(agent=without(1, "loadSession") if bad else None)
    return ask(run, "session/load", {}, cwd="/project", mcpServers=[])


@case(59)
def resume_advertised(bad: bool) -> RecordedRun:
    run = opened(agent=without(1, "sessionCapabilities", "resume") if bad else None)
    return ask(run, "session/resume", {}, cwd="/project", mcpServers=[])


@case(61)
def close_advertised(bad: bool) -> RecordedRun:
    return ask(opened(agent=without(1, "sessionCapabilities", "close") if bad else None), "session/close", {})


@case(65)
def list_advertised(bad: bool) -> RecordedRun:
    capabilities: dict[str, Any] | None = {"sessionCapabilities": {}} if bad else None
    return opened(agent=capabilities).request("to_agent", "session/list", {}, {"sessions": []})


@case(71)
def delete_advertised(bad: bool) -> RecordedRun:
    return ask(opened(agent=without(1, "sessionCapabilities", "delete") if bad else None), "session/delete", {})


@case(71, "v2")
def delete_advertised_v2(bad: bool) -> RecordedRun:
    return ask(opened(2, agent=without(2, "session", "delete") if bad else None), "session/delete", {})


@case(100)
def file_access(bad: bool) -> RecordedRun:
    run = opened(client=without(1, "fs", "writeTextFile", side=CLIENT) if bad else None)
    return call(run, "fs/write_text_file", {}, path="/a", content="")


@case(105)
def terminals(bad: bool) -> RecordedRun:
    run = opened(client=without(1, "terminal", side=CLIENT) if bad else None)
    return call(run, "terminal/create", {"terminalId": "t"}, command="ls")


@case(122)
def boolean_option(bad: bool) -> RecordedRun:
    option = {"id": "a", "name": "A", "type": "boolean", "currentValue": True}
    run = opened(client=without(1, "session", "configOptions", side=CLIENT) if bad else None)
    return run.update("config_option_update", configOptions=[option])


@case(124)
def notice(bad: bool) -> RecordedRun:
    run = opened(client=without(1, "session", "notices", side=CLIENT) if bad else None)
    return run.update("notice", severity="info", title="x")


@case(127)
def elicitation_mode(bad: bool) -> RecordedRun:
    run = opened(client={**CLIENT[1], "elicitation": {}} if bad else None)
    form: dict[str, Any] = {"type": "object", "properties": {}}
    return call(run, "elicitation/create", {"action": "decline"}, mode="form", message="x", requestedSchema=form)
