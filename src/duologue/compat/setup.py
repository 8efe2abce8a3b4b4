"""Rules for capabilities and authentication."""

from __future__ import annotations

from duologue.compat.json_access import as_object, keep_in_meta, objects, rename, renaming, string, take_from_meta
from duologue.compat.message import OpenMessage
from duologue.compat.rules import Rule, body, each, params, results
from duologue.schema import v1
from duologue.schema.base import JsonObject, JsonValue

TERMINAL_FLAGS = ("create", "output", "waitForExit", "kill", "release")


def _client_capabilities(message: OpenMessage) -> list[JsonObject]:
    return objects([message.fields.get("clientCapabilities")])


def read_terminal_capability(capabilities: JsonObject) -> bool:
    """Replace five flags by one, which is set only if all five are, because it stands for all five methods."""
    flags = capabilities.get("terminal")
    if not isinstance(flags, dict):
        return False
    capabilities["terminal"] = all(as_object(flags).get(name) is True for name in TERMINAL_FLAGS)
    return True


def write_terminal_capability(capabilities: JsonObject) -> bool:
    """Replace the flag by five of the same value."""
    flag = capabilities.get("terminal")
    if not isinstance(flag, bool):
        return False
    capabilities["terminal"] = dict.fromkeys(TERMINAL_FLAGS, flag)
    return True


def _agent_capabilities(message: OpenMessage) -> JsonObject:
    return as_object(message.fields.get("agentCapabilities"))


def _mcp_capabilities(message: OpenMessage) -> list[JsonObject]:
    return objects([_agent_capabilities(message).get("mcpCapabilities")])


def read_mcp_transports(capabilities: JsonObject) -> bool:
    """Replace the list of transports by flags; stdio needs none."""
    listed: JsonValue = capabilities.get("supportedTransports")
    if not isinstance(listed, list):
        return False
    del capabilities["supportedTransports"]
    capabilities.setdefault("http", "http" in listed)
    capabilities.setdefault("sse", "sse" in listed)
    return True


def write_mcp_transports(capabilities: JsonObject) -> bool:
    """Replace flags by a list of transports."""
    if "supportedTransports" in capabilities or not capabilities.keys() & {"http", "sse"}:
        return False
    remote = [name for name in ("http", "sse") if capabilities.pop(name, False) is True]
    capabilities["supportedTransports"] = ["stdio", *remote]
    return True


def read_session_modes(message: OpenMessage) -> bool:
    """Remember the agent's modes, which belong to a session today, for each session that is opened."""
    modes: JsonValue = _agent_capabilities(message).pop("sessionModes", None)
    message.known.modes = [
        {"id": mode["modeId"], "name": string(mode, "title") or mode["modeId"]}
        | ({"description": mode["description"]} if string(mode, "description") else {})
        for mode in objects(modes)
        if string(mode, "modeId")
    ]
    return modes is not None


def write_session_modes(message: OpenMessage) -> bool:
    """Add the modes that the host configured for every session."""
    capabilities, modes = _agent_capabilities(message), message.known.modes
    if not modes or "sessionModes" in capabilities:
        return False
    names = {"id": "modeId", "name": "title", "description": "description"}
    capabilities["sessionModes"] = [{names[key]: mode[key] for key in names if mode.get(key)} for mode in modes]
    message.fields["agentCapabilities"] = capabilities
    return True


def read_auth_methods(result: JsonObject) -> bool:
    """Rename the list and the members of its entries."""
    was_renamed = rename(result, "authenticationMethods", "authMethods")
    entries = objects(result.get("authMethods"))
    return any([was_renamed, *map(renaming(methodId="id", title="name"), entries)])


def write_auth_methods(result: JsonObject) -> bool:
    """Rename the list and the members of its entries; the seed has the list even if it is empty."""
    if "authenticationMethods" not in result:
        result.setdefault("authMethods", [])
    was_renamed = rename(result, "authMethods", "authenticationMethods")
    entries = objects(result.get("authenticationMethods"))
    return any([was_renamed, *map(renaming(id="methodId", name="title"), entries)])


def read_credentials(fields: JsonObject) -> bool:
    """Move credentials, which today's request does not have, to `_meta`."""
    credentials: JsonValue = fields.pop("credentials", None)
    if isinstance(credentials, dict):
        keep_in_meta(fields, credentials=credentials)
    return credentials is not None


def write_credentials(message: OpenMessage) -> bool:
    """Add the host's credentials for this method, or those in `_meta`."""
    source, method_id = message.known.credentials, message.fields.get("methodId")
    stored = take_from_meta(message.fields).get("credentials")
    given = source(method_id) if source is not None and isinstance(method_id, str) else None
    credentials: JsonValue = stored if given is None else dict(given)
    if credentials is None:
        return False
    message.fields["credentials"] = credentials
    return True


RULES = (
    Rule(
        "terminal-capability",
        ("seed-004",),
        "`terminal`: an object of five booleans",
        "`terminal`: a boolean, true only if all five are",
        params(v1.INITIALIZE),
        each(_client_capabilities, read_terminal_capability),
        each(_client_capabilities, write_terminal_capability),
    ),
    Rule(
        "mcp-capability-name",
        ("seed-001",),
        "`agentCapabilities.mcp`",
        "`agentCapabilities.mcpCapabilities`",
        results(v1.INITIALIZE),
        each(lambda message: [_agent_capabilities(message)], renaming(mcp="mcpCapabilities")),
    ),
    Rule(
        "mcp-transports",
        ("seed-004",),
        "`mcpCapabilities.supportedTransports`, a list",
        "`mcpCapabilities.http` and `.sse`, booleans",
        results(v1.INITIALIZE),
        each(_mcp_capabilities, read_mcp_transports),
        each(_mcp_capabilities, write_mcp_transports),
    ),
    Rule(
        "session-modes",
        ("seed-004",),
        "`agentCapabilities.sessionModes`",
        "`modes` of each session, see `modes-of-agent`",
        results(v1.INITIALIZE),
        read_session_modes,
        write_session_modes,
    ),
    Rule(
        "auth-methods",
        ("seed-004",),
        "`authenticationMethods` with `methodId` and `title`",
        "`authMethods` with `id` and `name`",
        results(v1.INITIALIZE),
        each(body, read_auth_methods),
        each(body, write_auth_methods),
    ),
    Rule(
        "credentials",
        ("seed-004",),
        "`authenticate` with `credentials`",
        '`_meta["seed-004"].credentials`; the host supplies those that are sent',
        params(v1.AUTHENTICATE),
        each(body, read_credentials),
        write_credentials,
    ),
)
