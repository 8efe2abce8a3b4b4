"""Capabilities and authentication methods, to version 2 and back."""

from __future__ import annotations

from msgspec import structs

from duologue.conversation.fields import convert_fields
from duologue.conversation.session_setup import Implementation
from duologue.protocol.shared.capabilities import capabilities_from_wire, capabilities_to_wire
from duologue.protocol.shared.session_setup import named_values_from_wire, named_values_to_wire
from duologue.protocol.values import AgentCapabilities, AuthMethod, ClientCapabilities
from duologue.schema import v2
from duologue.schema.base import Other

UNKNOWN = v2.Implementation(name="unknown", version="unknown")
"""Sent for a side without an implementation, because version 2 requires one."""


def implementation_to_wire(implementation: Implementation | None) -> v2.Implementation:
    return UNKNOWN if implementation is None else convert_fields(implementation, v2.Implementation)


def client_capabilities_from_wire(wire: v2.ClientCapabilities, *, subagents: bool = True) -> ClientCapabilities:
    """Read what a client can do: version 2 takes for granted what version 1 asks for, and has no files and terminals.

    Args:
        wire: What the client advertises.
        subagents: Whether updates about subagents may be sent, which no capability of version 2 says.
    """
    return structs.replace(capabilities_from_wire(wire, ClientCapabilities, 2), subagents=subagents)


def client_capabilities_to_wire(capabilities: ClientCapabilities) -> v2.ClientCapabilities:
    return capabilities_to_wire(capabilities, v2.ClientCapabilities, 2)


def agent_capabilities_to_wire(capabilities: AgentCapabilities) -> v2.AgentCapabilities:
    """Write what an agent offers: every agent of version 2 has sessions, and lists, resumes and closes them."""
    return capabilities_to_wire(structs.replace(capabilities, load=True), v2.AgentCapabilities, 2)


def agent_capabilities_from_wire(wire: v2.AgentCapabilities, *, has_auth_methods: bool = False) -> AgentCapabilities:
    """Read what an agent offers; an agent with authentication methods supports logout."""
    return structs.replace(capabilities_from_wire(wire, AgentCapabilities, 2), logout=has_auth_methods)


def auth_method_to_wire(method: AuthMethod) -> v2.AuthMethod:
    if method.other is not None:
        return Other(method.other.get("type"), method.other)
    if method.is_terminal:
        env = named_values_to_wire(v2.EnvVariable, method.env)
        return convert_fields(method, v2.AuthMethodTerminal, env=env)
    return convert_fields(method, v2.AuthMethodAgent)


def auth_method_from_wire(method: v2.AuthMethod) -> AuthMethod:
    """Read an authentication method; one of an unknown type keeps all its fields in `other`."""
    match method:
        case v2.AuthMethodTerminal():
            return convert_fields(method, AuthMethod, is_terminal=True, env=named_values_from_wire(method.env))
        case v2.AuthMethodAgent():
            return convert_fields(method, AuthMethod)
        case Other():
            return AuthMethod(method_id=str(method["methodId"]), name=str(method["name"]), other=dict(method))
