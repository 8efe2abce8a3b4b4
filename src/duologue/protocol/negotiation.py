"""Which version of the protocol two sides speak: the highest both know, chosen with the first exchange.

A connection speaks one version from then on. Version 2 is a draft, so each side speaks it only if its author says so.
What a side does not speak is not even imported: an agent is to be there at once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct, UnsetType

from duologue.errors import DowngradeRequired, InvalidParams, InvalidRequest, UnsupportedProtocolVersion
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.values import ClientCapabilities
from duologue.schema import legacy
from duologue.schema.codec import decode

if TYPE_CHECKING:
    from duologue.conversation.session_setup import Implementation
    from duologue.protocol.interfaces import AgentHandler, AgentProxy, ClientHandler
    from duologue.protocol.shared.agent_methods import AgentMethods
    from duologue.protocol.v1.agent_proxy import V1AgentProxy
    from duologue.protocol.values import InitializeResult
    from duologue.runtime.connection import Connection
    from duologue.runtime.handlers import Handlers

__all__ = ["SUPPORTED_VERSIONS", "VersionNegotiator", "check_versions", "initialize"]

SUPPORTED_VERSIONS = (1, 2)

_log = logging.getLogger("duologue.protocol")


def check_versions(versions: tuple[int, ...]) -> tuple[int, ...]:
    """The same versions in order.

    Raises:
        ValueError: There is one nobody here speaks, or none.
    """
    wanted = tuple(sorted(set(versions)))
    if not wanted or not set(wanted) <= set(SUPPORTED_VERSIONS):
        raise ValueError(f"the versions of the protocol are {SUPPORTED_VERSIONS}, not {versions}")
    return wanted


# --- the agent's side


class _RequestedVersion(Struct, rename="camel"):
    protocol_version: int


class VersionNegotiator:
    """The dialect of one connection, once its client has said what it speaks.

    Args:
        core: The agent.
        handlers: The table of the connection.
        versions: What the agent speaks.
        unstable: The unstable features that are switched on, by name.
    """

    def __init__(
        self, core: AgentHandler, handlers: Handlers, versions: tuple[int, ...], unstable: frozenset[str]
    ) -> None:
        self._core = core
        self._unstable = unstable
        self._handlers = handlers
        self._versions = versions
        self._dialect: AgentMethods | None = None
        if versions == (1,):  # whatever a client asks for, it gets an answer in version 1
            self._dialect = self._speak_version_1()
        else:
            handlers.prepare = self._choose

    async def aclose(self) -> None:
        """The client is gone, and its sessions have ended."""
        if self._dialect is not None:
            await self._dialect.aclose()

    def _speak_version_1(self) -> AgentMethods:
        from duologue.protocol.v1.agent_methods import V1AgentMethods

        return V1AgentMethods(self._core, self._handlers, FeatureFilter(1, self._unstable, "Agent"))

    def _choose(self, params: Raw | UnsetType) -> Raw | UnsetType:
        try:
            asked = msgspec.json.decode(
                b"" if isinstance(params, UnsetType) else params, type=_RequestedVersion
            ).protocol_version
        except msgspec.MsgspecError as bad:
            raise InvalidParams(f"$.protocolVersion: {bad}") from bad
        spoken = [version for version in self._versions if version <= asked]
        if not spoken:
            supported = list(self._versions)
            raise UnsupportedProtocolVersion(
                f"version {asked} of the protocol is not spoken here, but {' and '.join(map(str, supported))}",
                data={"requested": asked, "supported": supported},
            )
        if self._dialect is not None:
            self._dialect.unregister()
        if spoken[-1] == 1:
            self._dialect = self._speak_version_1()
            return params
        from duologue.protocol.v2.agent_methods import V2AgentMethods

        self._dialect = V2AgentMethods(self._core, self._handlers, FeatureFilter(2, self._unstable, "Agent"))
        return params if asked == spoken[-1] else _as_far_as_it_is_known(params)


def _as_far_as_it_is_known(params: Raw | UnsetType) -> Raw | UnsetType:
    """What a client of a later version says of itself: who it is, if that can be read, and no more if it cannot."""
    from duologue.schema import v2

    try:
        decode(v2.InitializeRequest, b"" if isinstance(params, UnsetType) else params)
    except InvalidParams:
        stranger = {"protocolVersion": 2, "info": {"name": "unknown", "version": "unknown"}}
        return Raw(msgspec.json.encode(stranger))
    return params


# --- the client's side


async def initialize(
    connection: Connection,
    core: ClientHandler,
    info: Implementation,
    features: ClientCapabilities,
    versions: tuple[int, ...],
    unstable: frozenset[str],
    *,
    can_start_over: bool,
) -> tuple[AgentProxy, InitializeResult]:
    """The first exchange, in the highest version both speak.

    Args:
        connection: To the agent.
        core: What answers its requests.
        info: Who we are.
        features: What we can do.
        versions: What we speak.
        unstable: The unstable features that are switched on, by name.
        can_start_over: Whether there can be another connection. An agent of version 1 does not understand what a
            client of version 2 says of itself; without another connection it never hears what that can do.

    Raises:
        DowngradeRequired: Another connection would be better.
        ProtocolViolation: The agent speaks no version of ours.
    """
    if versions[-1] == 2:
        from duologue.protocol.v2.agent_proxy import V2AgentProxy
        from duologue.protocol.v2.client_methods import V2ClientMethods

        gate = FeatureFilter(2, unstable, "connect")
        newer = V2AgentProxy(connection, gate)
        V2ClientMethods(core, features, connection.handlers, gate, newer)
        try:
            return newer, await newer.initialize(info, features)
        except DowngradeRequired as met:
            if 1 not in versions or can_start_over:
                raise
            _log.warning("the agent speaks version 1 only, and does not know what this client can do for it")
            older = _speak_version_1(connection, core, ClientCapabilities(), unstable)
            return older, older.welcome(decode(legacy.InitializeResponse, msgspec.json.encode(met.answer)))
        except (UnsupportedProtocolVersion, InvalidParams, InvalidRequest):
            if 1 not in versions:
                raise
    return await _introduce_in_version_1(connection, core, info, features, unstable)


def _speak_version_1(
    connection: Connection, core: ClientHandler, features: ClientCapabilities, unstable: frozenset[str]
) -> V1AgentProxy:
    from duologue.protocol.v1.agent_proxy import V1AgentProxy
    from duologue.protocol.v1.client_methods import V1ClientMethods

    gate = FeatureFilter(1, unstable, "connect")
    V1ClientMethods(core, features, connection.handlers, gate)
    return V1AgentProxy(connection, gate)


async def _introduce_in_version_1(
    connection: Connection,
    core: ClientHandler,
    info: Implementation,
    features: ClientCapabilities,
    unstable: frozenset[str],
) -> tuple[AgentProxy, InitializeResult]:
    proxy = _speak_version_1(connection, core, features, unstable)
    try:
        return proxy, await proxy.initialize(info, features)
    except UnsupportedProtocolVersion as refused:
        raise UnsupportedProtocolVersion(
            f"{refused.message}; `versions=(1, 2)` speaks the newer one as well, and `--v2` on the command line",
            data=refused.data,
        ) from refused
