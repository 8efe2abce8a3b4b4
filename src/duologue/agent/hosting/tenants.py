"""One agent for several people: each caller meets an agent that has never heard of the others.

A caller's view shares the handlers and nothing else: it has its own store, and its own list of open sessions. A session
of somebody else is not refused, it does not exist. What would change the agent for everybody, the choice of providers,
is not offered to anybody.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from duologue.store.base import Store
from duologue.store.memory import MemoryStore
from duologue.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from duologue.agent.agent import Agent

__all__ = ["PerCallerAgents", "StoreFactory"]

StoreFactory: TypeAlias = Callable[[str], Store]
"""Where the sessions of a caller are kept."""


class PerCallerAgents:
    """The views of an agent, made when a caller first comes.

    Args:
        agent: What they have in common.
        store_for: Where each one's sessions are kept; without it, beside the agent's own.

    Raises:
        ValueError: The agent's store is one of your own, and `store_for` is missing.
    """

    def __init__(self, agent: Agent[Any], store_for: StoreFactory | None = None) -> None:
        self._agent = agent
        self._store_for = store_for or _beside(agent.store)
        self._views: dict[str, Agent[Any]] = {}

    def __call__(self, caller: str) -> Agent[Any]:
        """The agent as this caller sees it."""
        if caller not in self._views:
            view = copy.copy(self._agent)
            view.store = None if self._store_for is None else self._store_for(caller)
            view.open_sessions = {}
            view.providers = None
            self._views[caller] = view
        return self._views[caller]

    async def aclose(self) -> None:
        """Let go of every caller's store."""
        views, self._views = self._views, {}
        for view in views.values():
            if view.store is not None:
                await view.store.aclose()


def _beside(store: Store | None) -> StoreFactory | None:
    if store is None:
        return None
    if isinstance(store, MemoryStore):
        return lambda caller: MemoryStore()
    if isinstance(store, SqliteStore):
        directory = store.directory / "callers"
        # A dot keeps its meaning when it is quoted.
        return lambda caller: SqliteStore(directory / f"@{quote(caller, safe='')}")
    raise ValueError("a store of your own needs `store_for`: where are the sessions of each caller kept?")
