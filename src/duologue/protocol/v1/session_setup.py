"""Capabilities and authentication methods, to version 1 and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duologue.conversation.content import JsonObject
from duologue.conversation.fields import convert_fields
from duologue.conversation.session_setup import Implementation
from duologue.protocol.shared.capabilities import capabilities_from_wire, capabilities_to_wire
from duologue.protocol.values import AgentCapabilities, AuthMethod, ClientCapabilities
from duologue.schema import v1

if TYPE_CHECKING:
    from duologue.schema import legacy


def implementation_to_wire(implementation: Implementation | None) -> v1.Implementation | None:
    return None if implementation is None else convert_fields(implementation, v1.Implementation)


def client_capabilities_from_wire(wire: v1.ClientCapabilities) -> ClientCapabilities:
    return capabilities_from_wire(wire, ClientCapabilities, 1)


def client_capabilities_to_wire(capabilities: ClientCapabilities) -> v1.ClientCapabilities:
    return capabilities_to_wire(capabilities, v1.ClientCapabilities, 1)


def agent_capabilities_from_wire(wire: v1.AgentCapabilities) -> AgentCapabilities:
    return capabilities_from_wire(wire, AgentCapabilities, 1)


def agent_capabilities_to_wire(capabilities: AgentCapabilities) -> v1.AgentCapabilities:
    return capabilities_to_wire(capabilities, v1.AgentCapabilities, 1)


def auth_method_to_wire(method: AuthMethod) -> v1.AuthMethod:
    if method.is_terminal:
        return convert_fields(method, v1.AuthMethodTerminal, id=method.method_id)
    return convert_fields(method, v1.AuthMethodAgent, id=method.method_id)


def auth_method_from_wire(method: legacy.AuthMethod) -> AuthMethod:
    from duologue.schema import legacy

    other = _env_var_fields(method) if isinstance(method, legacy.AuthMethodEnvVar) else None
    is_terminal = isinstance(method, v1.AuthMethodTerminal)
    return convert_fields(method, AuthMethod, method_id=method.id, is_terminal=is_terminal, other=other)


def _env_var_fields(method: legacy.AuthMethodEnvVar) -> JsonObject:
    fields: JsonObject = {"vars": method.vars, "varName": method.var_name, "varNames": method.var_names}
    return {name: value for name, value in {**fields, "link": method.link}.items() if value is not None}
