"""Serve one agent to several callers that share its handlers and nothing else.

Each caller gets a tenant: an agent with the attributes listed in `SHARED`, its own store and its own open sessions. A
session of another caller does not exist for it. Providers are not offered, as their choice would affect all callers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from duologue.store.base import Store
from duologue.store.memory import MemoryStore
from duologue.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from duologue.agent.agent import Agent

StoreFactory: TypeAlias = Callable[[str], Store]
"""Returns the store of a caller's sessions."""

SHARED = (
    *(
        "info",
        "_settings_type",
        "_accepts",
        "_system_prompt",
        "_mcp",
        "_mcp_servers",
        "_steering",
        "_auth_required",
        "_meta",
    ),
    *("_permission_timeout", "_cancel_timeout", "_auto_title", "_debug"),
    *("_protocol_versions", "_unstable", "_legacy_models", "_dialect"),
    *("_prompt_handler", "_steer_handler", "_request_hooks", "_open_hooks", "_commands", "_extensions"),
    *("_auth_methods", "_logout_handler", "_status_handler"),
)
"""Attributes of an agent that its callers share: what its author configured and registered."""

OWN = ("store", "_open_sessions", "_providers")
"""Attributes that each caller has for itself."""


class PerCallerAgents:
    """The tenants of an agent, each created when its caller first connects.

    Args:
        agent: The agent that they are made from.
        store_for: Returns the store of a caller. Default: a store next to the agent's own.

    Raises:
        ValueError: The agent's store is of an unknown class, and `store_for` is missing.
    """

    def __init__(self, agent: Agent[Any], store_for: StoreFactory | None = None) -> None:
        self._agent = agent
        self._store_for = store_for or _stores_next_to(agent.store)
        self._tenants: dict[str, Agent[Any]] = {}

    def __call__(self, caller: str) -> Agent[Any]:
        """Return the agent of this caller."""
        if caller not in self._tenants:
            self._tenants[caller] = self._new_tenant(caller)
        return self._tenants[caller]

    def _new_tenant(self, caller: str) -> Agent[Any]:
        tenant: Agent[Any] = object.__new__(type(self._agent))
        for name in SHARED:
            setattr(tenant, name, getattr(self._agent, name))
        tenant.store = None if self._store_for is None else self._store_for(caller)
        tenant._open_sessions = {}
        tenant._providers = None
        return tenant

    async def aclose(self) -> None:
        """Close the store of every caller."""
        tenants, self._tenants = self._tenants, {}
        for tenant in tenants.values():
            if tenant.store is not None:
                await tenant.store.aclose()


def _stores_next_to(store: Store | None) -> StoreFactory | None:
    if store is None:
        return None
    if isinstance(store, MemoryStore):
        return lambda caller: MemoryStore()
    if isinstance(store, SqliteStore):
        directory = store.directory / "callers"
        # Quoting leaves dots as they are; the "@" makes "." and ".." ordinary names.
        return lambda caller: SqliteStore(directory / f"@{quote(caller, safe='')}")
    raise ValueError(f"`store_for` is needed to give each caller a store: {type(store).__name__} is not a known store")
