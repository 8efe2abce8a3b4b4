"""Connect a test to the agents it tests, and close everything at the end of the test."""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from duologue.client.agent import RemoteAgent
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.client.session import ClientSession
from duologue.client.target import Target
from duologue.store.memory import MemoryStore
from duologue.store.sqlite.store import SqliteStore
from duologue.testing.client_replay import replay_client
from duologue.testing.script import Script, Step
from duologue.testing.scripted_client import ClientRun, drive
from duologue.testing.targets import TestTarget, as_target
from duologue.testing.transcript_lines import transcript_text
from duologue.trace.replay.report import ReplayReport

SHOWN_SESSIONS = 5
"""Sessions whose transcripts a failed test shows, the newest ones."""


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
        self._sessions: deque[ClientSession] = deque(maxlen=SHOWN_SESSIONS)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def connect(self, target: TestTarget, **options: Any) -> RemoteAgent:
        """Connect to an agent until the end of the test.

        Args:
            target: An `Agent`, a function or class as in `duologue.run`, a command, a URL, or a `Scenario`.
            options: Keywords of `duologue.connect`.
        """
        self._loop = asyncio.get_running_loop()
        return await self._open.enter_async_context(connect(self._agent(target), **options))

    async def new_session(
        self,
        target: TestTarget,
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
        session = await agent.new_session(self.cwd if cwd is None else cwd, settings=settings or {})
        self._sessions.append(session)
        return session

    def transcripts(self) -> list[str]:
        """Return what happened in the sessions so far that `new_session` opened, as text for a person."""
        return [transcript_text(session) for session in self._sessions]

    async def replay(self, recording: str | Path, target: TestTarget, **options: Any) -> ReplayReport:
        """Send an agent what the client of a recording sent; fail the test if it does anything else than recorded.

        Args:
            recording: The file, as `tap`, `--record` and `connect(record=...)` write it.
            target: The agent, as in `new_session`.
            options: Keywords of `duologue.testing.replay_client`. `cwd` is an empty directory of this test by default.

        Raises:
            AssertionError: The agent deviates from the recording; the message says where.
        """
        self._loop = asyncio.get_running_loop()
        options.setdefault("cwd", self.cwd)
        report = await replay_client(recording, self._agent(target), **options)
        report.assert_same()
        return report

    async def drive(
        self, target: TestTarget, script: Script | str | Path | Sequence[Step], **options: Any
    ) -> ClientRun:
        """Play a script of a client to an agent; fail the test if the agent deviates from it.

        Args:
            target: The agent, as in `new_session`.
            script: The script, the path of its file, or its steps.
            options: Keywords of `duologue.testing.drive`. `cwd` is an empty directory of this test by default.

        Raises:
            ScenarioFailed: The agent did something other than the script expects; its notes have the messages.
        """
        self._loop = asyncio.get_running_loop()
        options.setdefault("cwd", self.cwd)
        return await drive(self._agent(target), script, **options)

    def _agent(self, target: TestTarget) -> Target:
        """Return the target of `connect`; an agent does not store sessions in its own directory."""
        found = as_target(target)
        self._use_own_store(found)
        return found

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
