"""The built-in agent with a client that supports everything and a user who always answers the same."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from duologue.agent.agent import Agent
from duologue.builtin.agent import builtin_agent
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v1
from duologue.transports.process.transport import ProcessTransport
from tests.agent.wire_client import RecordingClient, client_for

PROGRAM = [sys.executable, "-m", "duologue.cli.main", "agent"]

EVERYTHING: dict[str, Any] = {
    "session": v1.ClientSessionCapabilities(
        compaction=v1.CompactionCapabilities(),
        notices=v1.NoticeCapabilities(),
        config_options=v1.SessionConfigOptionsCapabilities(boolean=v1.BooleanConfigOptionCapabilities()),
    ),
    "elicitation": v1.ElicitationCapabilities(
        form=v1.ElicitationFormCapabilities(), url=v1.ElicitationUrlCapabilities()
    ),
    "plan": v1.PlanCapabilities(),
    "subagents": v1.SubagentCapabilities(),
}
"""The capabilities that a client can advertise, except files and terminals, which `Harness` cannot serve."""


class Harness:
    """One session, and what came of the last prompt."""

    def __init__(self, client: RecordingClient, choose: str | None) -> None:
        self.client = client
        self.session = ""
        self.choose = choose
        """The kind of the option that the user chooses; `None` cancels the question."""
        self.asked: list[v1.RequestPermissionRequest] = []
        self._from = 0
        self._changed = asyncio.Event()
        client.handlers.on(v1.SESSION_UPDATE)(self._receive)
        client.handlers.on(v1.SESSION_REQUEST_PERMISSION)(self._answer)

    async def _answer(self, context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
        self.asked.append(params)
        chosen = next((option for option in params.options if option.kind == self.choose), None)
        if chosen is None:
            return v1.RequestPermissionResponse(outcome=v1.CancelledPermissionOutcome())
        return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=chosen.option_id))

    async def _receive(self, context: Context, params: v1.SessionNotification) -> None:
        self.client.updates.append(params.update)
        self._changed.set()

    async def until_text(self, text: str) -> None:
        """Until the agent has said this since the last prompt."""
        while text not in self.text:
            self._changed.clear()
            await self._changed.wait()

    async def prompt(self, *blocks: str | v1.ContentBlock) -> v1.PromptResponse:
        """Run one turn; `text` and `of` then cover only this one."""
        self._from = len(self.client.updates)
        return await self.client.prompt(self.session, *blocks)

    async def ask(self, *blocks: str | v1.ContentBlock) -> str:
        """Run one turn that ends with `end_turn`; return its text."""
        response = await self.prompt(*blocks)
        assert response.stop_reason == "end_turn"
        return self.text

    async def cancelled(self, text: str) -> v1.PromptResponse:
        """Run one turn that is cancelled after its first text."""
        turn = asyncio.ensure_future(self.prompt(text))
        await self.until_text(" ")
        await self.client.cancel(self.session)
        return await turn

    async def mode(self, mode: str) -> None:
        """Switch the mode, as the user would."""
        await self.client.connection.request(
            v1.SESSION_SET_MODE, v1.SetSessionModeRequest(session_id=self.session, mode_id=mode)
        )

    @property
    def updates(self) -> list[Any]:
        """All updates since the last prompt."""
        return self.client.updates[self._from :]

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the updates of one kind since the last prompt."""
        return [update for update in self.updates if isinstance(update, kind)]

    @property
    def text(self) -> str:
        """The agent's text since the last prompt."""
        contents = [chunk.content for chunk in self.of(v1.AgentMessageChunk)]
        return "".join(content.text for content in contents if isinstance(content, v1.TextContent))

    @property
    def status(self) -> str:
        """How the last tool call stands."""
        return str([update.status for update in self.of(v1.ToolCallUpdate) if update.status is not None][-1])

    @property
    def shown(self) -> list[Any]:
        """The content of the last tool call."""
        content: list[Any] = [update.content for update in self.of(v1.ToolCallUpdate) if update.content is not None][-1]
        return content

    @property
    def shown_text(self) -> str:
        """The text of it."""
        blocks = [part.content for part in self.shown if isinstance(part, v1.Content)]
        return "".join(block.text for block in blocks if isinstance(block, v1.TextContent))


@asynccontextmanager
async def open_harness(
    directory: Path,
    *,
    choose: str | None = "allow_once",
    agent: Agent[Any] | None = None,
    seconds: float = 20.0,
    **new: Any,
) -> AsyncGenerator[Harness]:
    """Connect the built-in agent in memory, with a session in this directory."""
    async with (
        asyncio.timeout(seconds),
        client_for(agent or builtin_agent(unstable=True), directory, **EVERYTHING) as client,
    ):
        harness = Harness(client, choose)
        harness.session = await client.new(**new)
        yield harness


@asynccontextmanager
async def process(directory: Path, *options: str, choose: str | None = "allow_once") -> AsyncGenerator[Harness]:
    """Run the real program without a session."""
    store = ["--sessions", str(directory / ".kept")] if "--scenario" not in options else []
    handlers = Handlers()
    transport = ProcessTransport([*PROGRAM, *store, *options])
    async with asyncio.timeout(60), Connection(transport, handlers, ignore_stray_output=True) as connection:
        harness = Harness(RecordingClient(connection, handlers, directory), choose)
        await harness.client.initialize(**EVERYTHING)
        yield harness
