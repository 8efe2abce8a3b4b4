"""Negotiation of the protocol version: the highest that both sides support, agreed on by `initialize`.

A connection uses one version from then on. Version 2 is a draft, so a side supports it only if its author says so.
A version that a side does not support is not imported, so that an agent starts quickly.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct, UnsetType

from duologue.errors import DowngradeRequired, InvalidParams, InvalidRequest, UnsupportedProtocolVersion
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.values import ClientCapabilities
from duologue.schema.codec import decode

if TYPE_CHECKING:
    from duologue.conversation.session_setup import Implementation
    from duologue.protocol.interfaces import AgentHandler, ClientHandler
    from duologue.protocol.shared.agent_methods import AgentMethods
    from duologue.protocol.shared.agent_proxy import AgentProxy
    from duologue.protocol.v1.agent_proxy import V1AgentProxy
    from duologue.protocol.values import InitializeResult
    from duologue.runtime.connection import Connection
    from duologue.runtime.handlers import Handlers

SUPPORTED_VERSIONS = (1, 2)

_log = logging.getLogger("duologue.protocol")


def check_versions(versions: tuple[int, ...]) -> tuple[int, ...]:
    """Return the versions in ascending order, each once.

    Raises:
        ValueError: One is not supported, or there is none.
    """
    wanted = tuple(sorted(set(versions)))
    if not wanted or not set(wanted) <= set(SUPPORTED_VERSIONS):
        raise ValueError(f"unsupported protocol versions {versions}; supported: {SUPPORTED_VERSIONS}")
    return wanted


# --- the agent's side


class _RequestedVersion(Struct, rename="camel"):
    protocol_version: int


class VersionNegotiator:
    """Registers the methods of one version, once `initialize` says which version the client supports.

    Args:
        agent: The agent.
        handlers: The handlers of the connection.
        versions: The versions that the agent supports.
        unstable: The unstable features that are switched on, by name.
    """

    def __init__(
        self, agent: AgentHandler, handlers: Handlers, versions: tuple[int, ...], unstable: frozenset[str]
    ) -> None:
        self._agent = agent
        self._unstable = unstable
        self._handlers = handlers
        self._versions = versions
        self._methods: AgentMethods | None = None
        if versions == (1,):  # the answer is version 1, whatever version the client requests
            self._methods = self._use_version_1()
        else:
            handlers.prepare = self._choose

    async def aclose(self) -> None:
        """Cancel what is left to do after the client has gone and its sessions have ended."""
        if self._methods is not None:
            await self._methods.aclose()

    def _use_version_1(self) -> AgentMethods:
        from duologue.protocol.v1.agent_methods import V1AgentMethods

        return V1AgentMethods(self._agent, self._handlers, FeatureFilter(1, self._unstable, "Agent"))

    def _choose(self, params: Raw | UnsetType) -> Raw | UnsetType:
        try:
            asked = msgspec.json.decode(
                b"" if isinstance(params, UnsetType) else params, type=_RequestedVersion
            ).protocol_version
        except msgspec.MsgspecError as bad:
            raise InvalidParams(f"$.protocolVersion: {bad}") from bad
        common = [version for version in self._versions if version <= asked]
        if not common:
            supported = list(self._versions)
            raise UnsupportedProtocolVersion(
                f"protocol version {asked} is not supported; supported: {', '.join(map(str, supported))}",
                data={"requested": asked, "supported": supported},
            )
        if self._methods is not None:
            self._methods.unregister()
        if common[-1] == 1:
            self._methods = self._use_version_1()
            return params
        from duologue.protocol.v2.agent_methods import V2AgentMethods

        self._methods = V2AgentMethods(self._agent, self._handlers, FeatureFilter(2, self._unstable, "Agent"))
        return params if asked == common[-1] else _readable_params(params)


def _readable_params(params: Raw | UnsetType) -> Raw | UnsetType:
    """Return the params of a later version if version 2 can read them; otherwise those of an unknown client."""
    from duologue.schema import v2

    try:
        decode(v2.InitializeRequest, b"" if isinstance(params, UnsetType) else params)
    except InvalidParams:
        unknown = {"protocolVersion": 2, "info": {"name": "unknown", "version": "unknown"}}
        return Raw(msgspec.json.encode(unknown))
    return params


# --- the client's side


async def initialize(
    connection: Connection,
    client: ClientHandler,
    info: Implementation,
    capabilities: ClientCapabilities,
    versions: tuple[int, ...],
    unstable: frozenset[str],
    *,
    can_start_over: bool,
) -> tuple[AgentProxy, InitializeResult]:
    """Initialize a connection in the highest version that both sides support.

    Args:
        connection: The connection to the agent.
        client: Handles the agent's requests.
        info: The client's implementation.
        capabilities: The client's capabilities.
        versions: The versions that the client supports.
        unstable: The unstable features that are switched on, by name.
        can_start_over: Whether the caller can open another connection. An agent of version 1 cannot read the
            capabilities that a client sends in version 2; without another connection it never receives them.

    Raises:
        DowngradeRequired: The agent supports version 1 only; open another connection for it.
        ProtocolViolation: The agent supports none of the versions.
    """
    if versions[-1] == 2:
        from duologue.protocol.v2.agent_proxy import V2AgentProxy
        from duologue.protocol.v2.client_methods import V2ClientMethods

        feature_filter = FeatureFilter(2, unstable, "connect")
        proxy_v2 = V2AgentProxy(connection, feature_filter)
        V2ClientMethods(client, capabilities, connection.handlers, feature_filter, proxy_v2)
        try:
            return proxy_v2, await proxy_v2.initialize(info, capabilities)
        except DowngradeRequired as downgrade:
            if 1 not in versions or can_start_over:
                raise
            from duologue.schema import legacy

            _log.warning("the agent supports protocol version 1 only and has not received this client's capabilities")
            proxy = _use_version_1(connection, client, ClientCapabilities(), unstable)
            return proxy, proxy.read_answer(decode(legacy.InitializeResponse, msgspec.json.encode(downgrade.answer)))
        except (UnsupportedProtocolVersion, InvalidParams, InvalidRequest):
            if 1 not in versions:
                raise
    return await _initialize_version_1(connection, client, info, capabilities, unstable)


def _use_version_1(
    connection: Connection, client: ClientHandler, capabilities: ClientCapabilities, unstable: frozenset[str]
) -> V1AgentProxy:
    from duologue.protocol.v1.agent_proxy import V1AgentProxy
    from duologue.protocol.v1.client_methods import V1ClientMethods

    feature_filter = FeatureFilter(1, unstable, "connect")
    V1ClientMethods(client, capabilities, connection.handlers, feature_filter)
    return V1AgentProxy(connection, feature_filter)


async def _initialize_version_1(
    connection: Connection,
    client: ClientHandler,
    info: Implementation,
    capabilities: ClientCapabilities,
    unstable: frozenset[str],
) -> tuple[AgentProxy, InitializeResult]:
    proxy = _use_version_1(connection, client, capabilities, unstable)
    try:
        return proxy, await proxy.initialize(info, capabilities)
    except UnsupportedProtocolVersion as error:
        raise UnsupportedProtocolVersion(
            f"{error.message}; use `protocol_versions=(1, 2)`, or `--v2` on the command line, for the newer one",
            data=error.data,
        ) from error
