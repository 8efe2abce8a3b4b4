"""The methods of the faulty agent."""

# Messages are JSON without types here.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio

from tests.conformance.faulty_agent import Connection, Json, Refused, StoredSession, handles

INFO = {"name": "faulty-agent", "version": "1"}


@handles("initialize")
async def initialize(connection: Connection, id_: object, params: Json) -> Json:
    asked = params.get("protocolVersion")
    is_known = isinstance(asked, int) and asked >= 1
    if connection.version and not connection.faulty("second initialize accepted"):
        raise Refused(-32600, "initialized already")
    if connection.version:
        connection.agent.sessions.clear()
    if not is_known and not connection.faulty("version 0 accepted"):
        raise Refused(-32022, "unsupported version", {"requested": asked, "supported": [1, 2]})
    connection.version = 1 if asked == 1 or connection.faulty("only version 1") else 2
    offered = params.get("clientCapabilities" if connection.version == 1 else "capabilities")
    if (
        connection.faulty("malformed capabilities refused")
        and offered
        and not isinstance(offered.get("auth", {}), dict)
    ):
        raise Refused(-32602, "malformed capabilities")
    connection.client = offered if isinstance(offered, dict) else {}
    if connection.faulty("needs capabilities") and not connection.client and asked == connection.version:
        raise Refused(-32603, "no capabilities")
    answer = _v1_answer(connection) if connection.version == 1 else _v2_answer(connection)
    if (connection.faulty("version echoed") and asked == 99) or (
        connection.faulty("highest version echoed") and asked == 65535
    ):
        answer["protocolVersion"] = asked
    if connection.faulty("newer version chosen") and asked == 1:
        answer["protocolVersion"] = 2
    if connection.faulty("older version chosen") and asked == 2:
        answer["protocolVersion"] = 1
    if connection.faulty("version too high") and asked == 9:
        answer["protocolVersion"] = 9
    return answer


def _methods(connection: Connection) -> list[Json]:
    key = "id" if connection.version == 1 else "methodId"
    if connection.faulty("login without methods", "login: none is offered"):
        return []
    found: list[Json] = [{key: "check", "name": "Log in"} | ({"type": "agent"} if connection.version == 2 else {})]
    if (
        (connection.client.get("auth") or {}).get("terminal")
        if isinstance(connection.client.get("auth"), dict)
        else False
    ) or connection.faulty("terminal login offered"):
        found.append({key: "terminal", "name": "In a terminal", "type": "terminal"})
    return found


def _v1_answer(connection: Connection) -> Json:
    names = ("list", "delete", "resume", "close", "additionalDirectories", "systemPrompt", "archive", "status")
    capabilities = {"loadSession": True, "sessionCapabilities": {name: {} for name in names}}
    if connection.faulty("advertises too much"):
        capabilities["providers"] = {}
    return {
        "protocolVersion": 1,
        "agentCapabilities": capabilities,
        "agentInfo": INFO,
        "authMethods": _methods(connection),
    }


def _v2_answer(connection: Connection) -> Json:
    names = ("delete", "additionalDirectories", "systemPrompt", "archive", "status")
    capabilities: Json = {"session": {name: {} for name in names}}
    return {"protocolVersion": 2, "capabilities": capabilities, "info": INFO, "authMethods": _methods(connection)}


@handles("authenticate", 1)
@handles("auth/login", 2)
async def log_in(connection: Connection, id_: object, params: Json) -> Json:
    if params.get("methodId") != "check" and not connection.faulty("any login accepted"):
        raise Refused(-32602, "no such method")
    connection.is_logged_in = not connection.faulty("login: without effect")
    return {}


@handles("auth/logout", 2)
async def log_out(connection: Connection, id_: object, params: Json) -> Json:
    if connection.faulty("logout is missing"):
        raise Refused(-32601, "no logout")
    return {}


# Sessions


@handles("session/new")
async def new(connection: Connection, id_: object, params: Json) -> Json | None:
    if not connection.is_logged_in:
        raise Refused(-32603 if connection.faulty("login: wrong code") else -32000, "log in first")
    _check_setup(connection, params)
    agent = connection.agent
    agent.opened += 1
    name = "session-1" if connection.faulty("same session id") else f"session-{agent.opened}"
    session = agent.sessions[name] = StoredSession(name, params)
    if connection.faulty("update before the session"):
        connection.update(session, "session_info_update", keep=False, title="early")
    custom = {"ownField": 1} if connection.faulty("custom field in a session") else {}
    connection.respond(id_, result={"sessionId": name, **_settings(connection, session), **custom})
    return None


def _check_setup(connection: Connection, params: Json) -> None:
    cwd = params.get("cwd")
    if not isinstance(cwd, str) and not connection.faulty("params unchecked"):
        raise Refused(-32602, "cwd")
    if not str(cwd).startswith("/") and not connection.faulty("relative cwd accepted", "params unchecked"):
        raise Refused(-32602, "cwd is relative")
    if connection.faulty("unknown fields refused") and "zzz" in params:
        raise Refused(-32602, "zzz")
    if connection.faulty("meta refused") and not isinstance(params.get("_meta", {}), dict):
        raise Refused(-32602, "_meta")
    servers = params.get("mcpServers")
    if servers is None and connection.faulty("null servers refused"):
        raise Refused(-32602, "mcpServers")
    for server in servers or []:
        if connection.faulty("type demanded") and "type" not in server:
            raise Refused(-32602, "type")
        if not isinstance(server.get("command"), str) and not connection.faulty("malformed server ignored"):
            raise Refused(-32602, "command")
    prompt = params.get("systemPrompt")
    if prompt and prompt.get("mode") not in ("append", "override") and not connection.faulty("system prompt ignored"):
        raise Refused(-32602, "systemPrompt")


def _options(connection: Connection, session: StoredSession) -> list[Json]:
    key = "id" if connection.version == 1 else "configId"
    values = [{"value": each, "name": each} for each in ("plain", "warm")]
    found: list[Json] = [
        {key: "tone", "name": "Tone", "type": "select", "currentValue": session.options["tone"], "options": values}
    ]
    client = connection.client.get("session")
    options = client.get("configOptions") if isinstance(client, dict) else None
    has_boolean = connection.version == 2 or (isinstance(options, dict) and "boolean" in options)
    if has_boolean or connection.faulty("boolean without capability"):
        found.append({key: "loud", "name": "Loud", "type": "boolean", "currentValue": session.options["loud"]})
    return found


def _settings(connection: Connection, session: StoredSession) -> Json:
    settings: Json = {"configOptions": _options(connection, session)}
    if connection.version == 1:
        modes = [{"id": each, "name": each} for each in ("ask", "code")]
        settings["modes"] = {"currentModeId": session.mode, "availableModes": modes}
    return settings


def known_session(connection: Connection, params: Json, *, is_open: bool = True) -> StoredSession:
    """Return the session that a request names."""
    name = params.get("sessionId")
    if not isinstance(name, str):
        raise Refused(-32602, "sessionId")
    session = connection.agent.sessions.get(name)
    if session is None or (is_open and not session.is_open):
        raise Refused(-32002, "no such session", {"sessionId": name})
    return session


@handles("session/load", 1)
async def load(connection: Connection, id_: object, params: Json) -> Json | None:
    if connection.faulty("unknown session loaded") and params.get("sessionId") not in connection.agent.sessions:
        return {}
    session = known_session(connection, params, is_open=False)
    _open_again(connection, session, params)
    if connection.faulty("nothing replayed"):
        return _settings(connection, session)
    if connection.faulty("replay after the response"):
        connection.respond(id_, result=_settings(connection, session))
    _replay(connection, session)
    return None if connection.faulty("replay after the response") else _settings(connection, session)


def _open_again(connection: Connection, session: StoredSession, params: Json) -> None:
    session.is_open = True
    if not connection.faulty("roots restored"):
        session.roots = params.get("additionalDirectories") or []


def _replay(connection: Connection, session: StoredSession) -> None:
    for update in session.history:
        name = "other" if connection.faulty("replay of another session") else session.id
        connection.send({"method": "session/update", "params": {"sessionId": name, "update": update}})


@handles("session/resume")
async def resume(connection: Connection, id_: object, params: Json) -> Json | None:
    if connection.faulty("unknown session loaded") and params.get("sessionId") not in connection.agent.sessions:
        return {}
    session = known_session(connection, params, is_open=False)
    start = params.get("replayFrom")
    if start is not None and start.get("type") != "start" and not connection.faulty("unknown position accepted"):
        raise Refused(-32602, "replayFrom")
    _open_again(connection, session, params)
    if start is not None or connection.faulty("resume replays"):
        _replay(connection, session)
    if connection.version == 2 and not connection.faulty("no state on resume"):
        connection.update(session, "state_update", keep=False, state="idle")
    settings = _settings(connection, session)
    settings.pop("modes", None) if connection.version == 2 else None
    return settings


@handles("session/list")
async def list_(connection: Connection, id_: object, params: Json) -> Json:
    if connection.faulty("list is missing"):
        raise Refused(-32601, "session/list")
    if params.get("cursor") is not None and not connection.faulty("any cursor accepted"):
        raise Refused(-32602, "cursor")
    cwd = params.get("cwd")
    found = [
        {"sessionId": each.id, "cwd": each.cwd}
        for each in connection.agent.sessions.values()
        if cwd is None or each.cwd == cwd or (connection.faulty("filter by prefix") and each.cwd.startswith(cwd))
    ]
    if not found and connection.faulty("no empty list"):
        return {}
    return {"sessions": found}


async def _finish(connection: Connection, session: StoredSession) -> None:
    """Cancel the work of a session and wait for its end."""
    turns = list(session.turns)
    for task in turns:
        task.cancel()
    await asyncio.gather(*turns, return_exceptions=True)


@handles("session/close")
async def close(connection: Connection, id_: object, params: Json) -> Json | None:
    if connection.version == 2 and params.get("sessionId") not in connection.agent.sessions:
        if connection.faulty("close of an unknown session fails"):
            raise Refused(-32002, "no such session")
        return {}
    session = known_session(connection, params)
    if connection.faulty("answers close too early"):
        connection.respond(id_, result={})
        await _finish(connection, session)
        session.is_open = False
        return None
    if not connection.faulty("close cancels nothing"):
        await _finish(connection, session)
    session.is_open = connection.faulty("closed session stays open")
    return {}


@handles("session/archive")
async def archive(connection: Connection, id_: object, params: Json) -> Json:
    session = known_session(connection, params, is_open=False)
    if not connection.faulty("archive cancels nothing"):
        await _finish(connection, session)
    return {}


@handles("session/unarchive")
async def unarchive(connection: Connection, id_: object, params: Json) -> Json:
    known_session(connection, params, is_open=False)
    return {}


@handles("session/status")
async def status(connection: Connection, id_: object, params: Json) -> Json:
    session = known_session(connection, params, is_open=False)
    result = {"status": "open" if session.is_open else "saved"}
    session.is_open = session.is_open or connection.faulty("status opens the session")
    return result


@handles("session/delete")
async def delete(connection: Connection, id_: object, params: Json) -> Json:
    session = connection.agent.sessions.get(str(params.get("sessionId")))
    if session is None and connection.faulty("delete of an unknown session fails"):
        raise Refused(-32002, "no such session")
    if session is not None:
        await _finish(connection, session)
        if connection.faulty("deleted session listed"):
            session.is_open = False
        else:
            del connection.agent.sessions[session.id]
    return {}


@handles("session/set_mode", 1)
async def set_mode(connection: Connection, id_: object, params: Json) -> Json:
    session = known_session(connection, params)
    if session.turns and connection.faulty("mode fixed while running"):
        raise Refused(-32603, "busy")
    if params.get("modeId") not in ("ask", "code") and not connection.faulty("any mode accepted"):
        raise Refused(-32602, "no such mode")
    session.mode = str(params.get("modeId"))
    return {}


@handles("session/set_config_option")
async def set_option(connection: Connection, id_: object, params: Json) -> Json:
    session = known_session(connection, params)
    name, value = str(params.get("configId")), params.get("value")
    is_known = (name == "tone" and value in ("plain", "warm")) or (name == "loud" and isinstance(value, bool))
    if not is_known and not connection.faulty("any option accepted"):
        raise Refused(-32602, "no such option or value")
    session.options[name] = value
    options = _options(connection, session)
    return {"configOptions": options[:1] if connection.faulty("only the changed option") else options}
