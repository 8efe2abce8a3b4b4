"""Rules for capabilities and authentication."""

from __future__ import annotations

from duologue.compat.json_access import any_changed, as_object, keep_in_meta, objects, rename, string, take_from_meta
from duologue.compat.message import OpenMessage
from duologue.compat.rules import Rule, params, results
from duologue.schema import v1
from duologue.schema.base import JsonObject, JsonValue

TERMINAL_FLAGS = ("create", "output", "waitForExit", "kill", "release")


def read_terminal_capability(message: OpenMessage) -> bool:
    """Replace five flags by one, which is set only if all five are, because it stands for all five methods."""
    capabilities = as_object(message.fields.get("clientCapabilities"))
    flags = capabilities.get("terminal")
    if not isinstance(flags, dict):
        return False
    capabilities["terminal"] = all(as_object(flags).get(name) is True for name in TERMINAL_FLAGS)
    return True


def write_terminal_capability(message: OpenMessage) -> bool:
    """Replace the flag by five of the same value."""
    capabilities = as_object(message.fields.get("clientCapabilities"))
    flag = capabilities.get("terminal")
    if not isinstance(flag, bool):
        return False
    capabilities["terminal"] = dict.fromkeys(TERMINAL_FLAGS, flag)
    return True


def _agent_capabilities(message: OpenMessage) -> JsonObject:
    return as_object(message.fields.get("agentCapabilities"))


def read_mcp_capability_name(message: OpenMessage) -> bool:
    """Rename `mcp`, the spelling of the first official example."""
    return rename(_agent_capabilities(message), "mcp", "mcpCapabilities")


def read_mcp_transports(message: OpenMessage) -> bool:
    """Replace the list of transports by flags; stdio needs none."""
    capabilities = as_object(_agent_capabilities(message).get("mcpCapabilities"))
    listed: JsonValue = capabilities.get("supportedTransports")
    if not isinstance(listed, list):
        return False
    del capabilities["supportedTransports"]
    capabilities.setdefault("http", "http" in listed)
    capabilities.setdefault("sse", "sse" in listed)
    return True


def write_mcp_transports(message: OpenMessage) -> bool:
    """Replace flags by a list of transports."""
    capabilities = as_object(_agent_capabilities(message).get("mcpCapabilities"))
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


def read_auth_methods(message: OpenMessage) -> bool:
    """Rename the list and the members of its entries."""
    fields = message.fields
    changes = [rename(fields, "authenticationMethods", "authMethods")]
    for entry in objects(fields.get("authMethods")):
        changes += [rename(entry, "methodId", "id"), rename(entry, "title", "name")]
    return any_changed(changes)


def write_auth_methods(message: OpenMessage) -> bool:
    """Rename the list and the members of its entries; the seed has the list even if it is empty."""
    fields = message.fields
    if "authenticationMethods" not in fields:
        fields.setdefault("authMethods", [])
    changes = [rename(fields, "authMethods", "authenticationMethods")]
    for entry in objects(fields.get("authenticationMethods")):
        changes += [rename(entry, "id", "methodId"), rename(entry, "name", "title")]
    return any_changed(changes)


def read_credentials(message: OpenMessage) -> bool:
    """Move credentials, which today's request does not have, to `_meta`."""
    credentials: JsonValue = message.fields.pop("credentials", None)
    if isinstance(credentials, dict):
        keep_in_meta(message.fields, credentials=credentials)
    return credentials is not None


def write_credentials(message: OpenMessage) -> bool:
    """Add the host's credentials for this method, or those in `_meta`."""
    source, method_id = message.known.credentials, message.fields.get("methodId")
    kept = take_from_meta(message.fields).get("credentials")
    given = source(method_id) if source is not None and isinstance(method_id, str) else None
    credentials: JsonValue = kept if given is None else dict(given)
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
        read_terminal_capability,
        write_terminal_capability,
    ),
    Rule(
        "mcp-capability-name",
        ("seed-001",),
        "`agentCapabilities.mcp`",
        "`agentCapabilities.mcpCapabilities`",
        results(v1.INITIALIZE),
        read_mcp_capability_name,
    ),
    Rule(
        "mcp-transports",
        ("seed-004",),
        "`mcpCapabilities.supportedTransports`, a list",
        "`mcpCapabilities.http` and `.sse`, booleans",
        results(v1.INITIALIZE),
        read_mcp_transports,
        write_mcp_transports,
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
        read_auth_methods,
        write_auth_methods,
    ),
    Rule(
        "credentials",
        ("seed-004",),
        "`authenticate` with `credentials`",
        '`_meta["seed-004"].credentials`; the host supplies those that are sent',
        params(v1.AUTHENTICATE),
        read_credentials,
        write_credentials,
    ),
)
