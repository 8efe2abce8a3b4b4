"""Connect a test to the agents it tests, and close everything at the end of the test."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

from duologue.agent.hosting.function_agent import Answer, as_agent
from duologue.client.agent import RemoteAgent
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.client.session import ClientSession
from duologue.client.target import Target
from duologue.store.memory import MemoryStore
from duologue.store.sqlite.store import SqliteStore


class AgentTester:
    """The fixture `acp`: opens sessions with agents, and closes them at the end of the test.

    An `Agent` and a function that answers prompts are connected in memory: no process, no network. If the agent stores
    sessions in a directory that is not a temporary one, they are stored in memory instead until the end of the test.
    Commands and URLs work as in `duologue.connect`.

    Args:
        cwd: Working directory of sessions that name none; the fixture uses the test's `tmp_path`.
    """

    def __init__(self, cwd: str | Path = ".") -> None:
        self.cwd = Path(cwd)
        self._open = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def connect(self, target: Target | Answer | type, **options: Any) -> RemoteAgent:
        """Connect to an agent until the end of the test.

        Args:
            target: An `Agent`, a function or class as in `duologue.run`, a command, a URL, or a `Scenario`.
            options: Keywords of `duologue.connect`.
        """
        self._loop = asyncio.get_running_loop()
        if inspect.isroutine(target) or inspect.isclass(target):
            target = as_agent(target)
        self._use_own_store(target)
        return await self._open.enter_async_context(connect(cast("Target", target), **options))

    async def new_session(
        self,
        target: Target | Answer | type,
        cwd: str | Path | None = None,
        *,
        permissions: Permissions | None = None,
        workspace: Workspace | None = None,
        terminals: Terminals | None = None,
        settings: Mapping[str, str | bool] | None = None,
        **options: Any,
    ) -> ClientSession:
        """Connect to an agent and open a session with it; both end with the test.

        Args:
            target: An `Agent`, a function or class as in `duologue.run`, a command, a URL, or a `Scenario`.
            cwd: Working directory of the session. Default: an empty directory of this test.
            permissions: Policy that decides the agent's permission requests. Default: it may only read.
            workspace: Files offered to the agent. Default: none.
            terminals: Commands the agent may run here. Default: none.
            settings: Config options by id, and `mode` and `model`, to set.
            options: Other keywords of `duologue.connect`.
        """
        agent = await self.connect(target, permissions=permissions, workspace=workspace, terminals=terminals, **options)
        return await agent.new_session(self.cwd if cwd is None else cwd, settings=settings or {})

    def _use_own_store(self, target: Any) -> None:
        """Keep the sessions of a test out of the directory in which an agent stores those of its user."""
        store = getattr(target, "store", None)
        if not isinstance(store, SqliteStore):
            return
        directory = store.directory.absolute()
        if not any(directory.is_relative_to(Path(each).absolute()) for each in (self.cwd, tempfile.gettempdir())):
            target.store = MemoryStore()
            self._open.callback(setattr, target, "store", store)

    async def aclose(self) -> None:
        """Close all sessions and connections, the newest first."""
        await self._open.aclose()

    def close(self) -> None:
        """Close what is still open after the test, if its event loop can still run."""
        if self._loop is not None and not self._loop.is_closed() and not self._loop.is_running():
            self._loop.run_until_complete(self.aclose())
