"""The built-in agent on a bench: an editor that can do everything before it, and a user who always answers the same."""

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
from tests.agent.wire_client import Editor, editor_for

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
"""What an editor can advertise, save files and terminals, which `Bench` cannot serve."""


class Bench:
    """One session, and what came of the last prompt."""

    def __init__(self, editor: Editor, choose: str | None) -> None:
        self.editor = editor
        self.session = ""
        self.choose = choose
        """The kind of the option that the user chooses; `None` cancels the question."""
        self.asked: list[v1.RequestPermissionRequest] = []
        self._from = 0
        self._news = asyncio.Event()
        editor.handlers.on(v1.SESSION_UPDATE)(self._hear)
        editor.handlers.on(v1.SESSION_REQUEST_PERMISSION)(self._answer)

    async def _answer(self, context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
        self.asked.append(params)
        chosen = next((option for option in params.options if option.kind == self.choose), None)
        if chosen is None:
            return v1.RequestPermissionResponse(outcome=v1.CancelledPermissionOutcome())
        return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=chosen.option_id))

    async def _hear(self, context: Context, params: v1.SessionNotification) -> None:
        self.editor.updates.append(params.update)
        self._news.set()

    async def until_said(self, text: str) -> None:
        """Until the agent has said this since the last prompt."""
        while text not in self.text:
            self._news.clear()
            await self._news.wait()

    async def prompt(self, *blocks: str | v1.ContentBlock) -> v1.PromptResponse:
        """Run one turn; `text` and `of` then cover only this one."""
        self._from = len(self.editor.updates)
        return await self.editor.prompt(self.session, *blocks)

    async def say(self, *blocks: str | v1.ContentBlock) -> str:
        """Run one turn that ends with `end_turn`; return its text."""
        response = await self.prompt(*blocks)
        assert response.stop_reason == "end_turn"
        return self.text

    async def cancelled(self, text: str) -> v1.PromptResponse:
        """Run one turn that is cancelled after its first text."""
        turn = asyncio.ensure_future(self.prompt(text))
        await self.until_said(" ")
        await self.editor.cancel(self.session)
        return await turn

    async def mode(self, mode: str) -> None:
        """Switch the mode, as the user would."""
        await self.editor.connection.request(
            v1.SESSION_SET_MODE, v1.SetSessionModeRequest(session_id=self.session, mode_id=mode)
        )

    @property
    def updates(self) -> list[Any]:
        """All updates since the last prompt."""
        return self.editor.updates[self._from :]

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the updates of one kind since the last prompt."""
        return [update for update in self.updates if isinstance(update, kind)]

    @property
    def text(self) -> str:
        """The agent's text since the last prompt."""
        said = [chunk.content for chunk in self.of(v1.AgentMessageChunk)]
        return "".join(content.text for content in said if isinstance(content, v1.TextContent))

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
async def bench(
    directory: Path,
    *,
    choose: str | None = "allow_once",
    agent: Agent[Any] | None = None,
    seconds: float = 20.0,
    **new: Any,
) -> AsyncGenerator[Bench]:
    """Connect the built-in agent in memory, with a session in this directory."""
    async with (
        asyncio.timeout(seconds),
        editor_for(agent or builtin_agent(unstable=True), directory, **EVERYTHING) as editor,
    ):
        on_bench = Bench(editor, choose)
        on_bench.session = await editor.new(**new)
        yield on_bench


@asynccontextmanager
async def process(directory: Path, *options: str, choose: str | None = "allow_once") -> AsyncGenerator[Bench]:
    """Run the real program without a session."""
    kept = ["--sessions", str(directory / ".kept")] if "--scenario" not in options else []
    handlers = Handlers()
    transport = ProcessTransport([*PROGRAM, *kept, *options])
    async with asyncio.timeout(30), Connection(transport, handlers, ignore_stray_output=True) as connection:
        on_bench = Bench(Editor(connection, handlers, directory), choose)
        await on_bench.editor.initialize(**EVERYTHING)
        yield on_bench
