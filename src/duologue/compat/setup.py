"""Getting to know each other: capabilities and authentication."""

from __future__ import annotations

from duologue.compat.json_access import (
    JsonObject,
    JsonValue,
    as_object,
    bring_back,
    keep,
    objects,
    rename,
    took_place,
    word,
)
from duologue.compat.message import OpenMessage
from duologue.compat.methods import AUTHENTICATE, INITIALIZE
from duologue.compat.rules import Rule, params, results

__all__ = ["RULES"]

TERMINAL_ABILITIES = ("create", "output", "waitForExit", "kill", "release")


def read_terminal_capability(letter: OpenMessage) -> bool:
    """Today's flag promises all five methods, so it takes all five."""
    capabilities = as_object(letter.fields.get("clientCapabilities"))
    abilities = capabilities.get("terminal")
    if not isinstance(abilities, dict):
        return False
    capabilities["terminal"] = all(as_object(abilities).get(name) is True for name in TERMINAL_ABILITIES)
    return True


def write_terminal_capability(letter: OpenMessage) -> bool:
    """One flag, five times."""
    capabilities = as_object(letter.fields.get("clientCapabilities"))
    flag = capabilities.get("terminal")
    if not isinstance(flag, bool):
        return False
    capabilities["terminal"] = dict.fromkeys(TERMINAL_ABILITIES, flag)
    return True


def _agent_capabilities(letter: OpenMessage) -> JsonObject:
    return as_object(letter.fields.get("agentCapabilities"))


def read_mcp_capability_name(letter: OpenMessage) -> bool:
    """The first official example says `mcp`."""
    return rename(_agent_capabilities(letter), "mcp", "mcpCapabilities")


def read_mcp_transports(letter: OpenMessage) -> bool:
    """Flags from a list; stdio goes without saying."""
    capabilities = as_object(_agent_capabilities(letter).get("mcpCapabilities"))
    listed: JsonValue = capabilities.get("supportedTransports")
    if not isinstance(listed, list):
        return False
    del capabilities["supportedTransports"]
    capabilities.setdefault("http", "http" in listed)
    capabilities.setdefault("sse", "sse" in listed)
    return True


def write_mcp_transports(letter: OpenMessage) -> bool:
    """A list from flags."""
    capabilities = as_object(_agent_capabilities(letter).get("mcpCapabilities"))
    if "supportedTransports" in capabilities or not capabilities.keys() & {"http", "sse"}:
        return False
    remote = [name for name in ("http", "sse") if capabilities.pop(name, False) is True]
    capabilities["supportedTransports"] = ["stdio", *remote]
    return True


def read_session_modes(letter: OpenMessage) -> bool:
    """Modes belong to a session today: they are kept for each that opens."""
    modes: JsonValue = _agent_capabilities(letter).pop("sessionModes", None)
    letter.known.modes = [
        {"id": mode["modeId"], "name": word(mode, "title") or mode["modeId"]}
        | ({"description": mode["description"]} if word(mode, "description") else {})
        for mode in objects(modes)
        if word(mode, "modeId")
    ]
    return modes is not None


def write_session_modes(letter: OpenMessage) -> bool:
    """The modes that the host says every session has."""
    capabilities, modes = _agent_capabilities(letter), letter.known.modes
    if not modes or "sessionModes" in capabilities:
        return False
    names = {"id": "modeId", "name": "title", "description": "description"}
    capabilities["sessionModes"] = [{names[key]: mode[key] for key in names if mode.get(key)} for mode in modes]
    letter.fields["agentCapabilities"] = capabilities
    return True


def read_auth_methods(letter: OpenMessage) -> bool:
    """The list and the names in its entries."""
    fields = letter.fields
    hits = [rename(fields, "authenticationMethods", "authMethods")]
    for entry in objects(fields.get("authMethods")):
        hits += [rename(entry, "methodId", "id"), rename(entry, "title", "name")]
    return took_place(hits)


def write_auth_methods(letter: OpenMessage) -> bool:
    """The way back; the seed has the list also where it is empty."""
    fields = letter.fields
    if "authenticationMethods" not in fields:
        fields.setdefault("authMethods", [])
    hits = [rename(fields, "authMethods", "authenticationMethods")]
    for entry in objects(fields.get("authenticationMethods")):
        hits += [rename(entry, "id", "methodId"), rename(entry, "name", "title")]
    return took_place(hits)


def read_credentials(letter: OpenMessage) -> bool:
    """Today's request has no place for secrets; the agent that asked for them finds them in `_meta`."""
    credentials: JsonValue = letter.fields.pop("credentials", None)
    if isinstance(credentials, dict):
        keep(letter.fields, credentials=credentials)
    return credentials is not None


def write_credentials(letter: OpenMessage) -> bool:
    """What the host has for this method; else what came in `_meta`."""
    source, method_id = letter.known.credentials, letter.fields.get("methodId")
    kept = bring_back(letter.fields).get("credentials")
    given = source(method_id) if source is not None and isinstance(method_id, str) else None
    credentials: JsonValue = kept if given is None else dict(given)
    if credentials is None:
        return False
    letter.fields["credentials"] = credentials
    return True


RULES = (
    Rule(
        "terminal-capability",
        ("seed-004",),
        "`terminal`: an object of five booleans",
        "`terminal`: a boolean, true only if all five are",
        params(INITIALIZE),
        read_terminal_capability,
        write_terminal_capability,
    ),
    Rule(
        "mcp-capability-name",
        ("seed-001",),
        "`agentCapabilities.mcp`",
        "`agentCapabilities.mcpCapabilities`",
        results(INITIALIZE),
        read_mcp_capability_name,
    ),
    Rule(
        "mcp-transports",
        ("seed-004",),
        "`mcpCapabilities.supportedTransports`, a list",
        "`mcpCapabilities.http` and `.sse`, booleans",
        results(INITIALIZE),
        read_mcp_transports,
        write_mcp_transports,
    ),
    Rule(
        "session-modes",
        ("seed-004",),
        "`agentCapabilities.sessionModes`",
        "`modes` of each session, see `modes-of-agent`",
        results(INITIALIZE),
        read_session_modes,
        write_session_modes,
    ),
    Rule(
        "auth-methods",
        ("seed-004",),
        "`authenticationMethods` with `methodId` and `title`",
        "`authMethods` with `id` and `name`",
        results(INITIALIZE),
        read_auth_methods,
        write_auth_methods,
    ),
    Rule(
        "credentials",
        ("seed-004",),
        "`authenticate` with `credentials`",
        '`_meta["seed-004"].credentials`; what goes is asked of the host',
        params(AUTHENTICATE),
        read_credentials,
        write_credentials,
    ),
)
