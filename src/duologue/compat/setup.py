"""Getting to know each other: capabilities and authentication."""

from __future__ import annotations

from duologue.compat.letters import Letter
from duologue.compat.methods import AUTHENTICATE, INITIALIZE
from duologue.compat.rules import Rule, params, results
from duologue.compat.values import JsonObject, JsonValue, as_object, objects, rename, took_place

__all__ = ["RULES"]

TERMINAL_ABILITIES = ("create", "output", "waitForExit", "kill", "release")


def read_terminal_capability(letter: Letter) -> bool:
    """Today's flag promises all five methods, so it takes all five."""
    capabilities = as_object(letter.fields.get("clientCapabilities"))
    abilities = capabilities.get("terminal")
    if not isinstance(abilities, dict):
        return False
    capabilities["terminal"] = all(as_object(abilities).get(name) is True for name in TERMINAL_ABILITIES)
    return True


def write_terminal_capability(letter: Letter) -> bool:
    """One flag, five times."""
    capabilities = as_object(letter.fields.get("clientCapabilities"))
    flag = capabilities.get("terminal")
    if not isinstance(flag, bool):
        return False
    capabilities["terminal"] = dict.fromkeys(TERMINAL_ABILITIES, flag)
    return True


def _agent_capabilities(letter: Letter) -> JsonObject:
    return as_object(letter.fields.get("agentCapabilities"))


def read_mcp_capability_name(letter: Letter) -> bool:
    """The first official example says `mcp`."""
    return rename(_agent_capabilities(letter), "mcp", "mcpCapabilities")


def read_mcp_transports(letter: Letter) -> bool:
    """Flags from a list; stdio goes without saying."""
    capabilities = as_object(_agent_capabilities(letter).get("mcpCapabilities"))
    listed: JsonValue = capabilities.get("supportedTransports")
    if not isinstance(listed, list):
        return False
    del capabilities["supportedTransports"]
    capabilities.setdefault("http", "http" in listed)
    capabilities.setdefault("sse", "sse" in listed)
    return True


def write_mcp_transports(letter: Letter) -> bool:
    """A list from flags."""
    capabilities = as_object(_agent_capabilities(letter).get("mcpCapabilities"))
    if "supportedTransports" in capabilities or not capabilities.keys() & {"http", "sse"}:
        return False
    remote = [name for name in ("http", "sse") if capabilities.pop(name, False) is True]
    capabilities["supportedTransports"] = ["stdio", *remote]
    return True


def read_session_modes(letter: Letter) -> bool:
    """Modes belong to a session today; without one there is nobody to tell."""
    return _agent_capabilities(letter).pop("sessionModes", None) is not None


def read_auth_methods(letter: Letter) -> bool:
    """The list and the names in its entries."""
    fields = letter.fields
    hits = [rename(fields, "authenticationMethods", "authMethods")]
    for entry in objects(fields.get("authMethods")):
        hits += [rename(entry, "methodId", "id"), rename(entry, "title", "name")]
    return took_place(hits)


def write_auth_methods(letter: Letter) -> bool:
    """The way back."""
    fields = letter.fields
    hits = [rename(fields, "authMethods", "authenticationMethods")]
    for entry in objects(fields.get("authenticationMethods")):
        hits += [rename(entry, "id", "methodId"), rename(entry, "name", "title")]
    return took_place(hits)


def read_credentials(letter: Letter) -> bool:
    """Secrets have no place in today's request: they end here, unread and unlogged."""
    return letter.fields.pop("credentials", None) is not None


def write_credentials(letter: Letter) -> bool:
    """What the host has for this method, if it has anything."""
    source, method_id = letter.known.credentials, letter.fields.get("methodId")
    credentials = source(method_id) if source is not None and isinstance(method_id, str) else None
    if credentials is None:
        return False
    letter.fields["credentials"] = dict(credentials)
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
        "left out: modes come with each session",
        results(INITIALIZE),
        read_session_modes,
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
        "`methodId` only; what came is dropped, what goes is asked of the host",
        params(AUTHENTICATE),
        read_credentials,
        write_credentials,
    ),
)
