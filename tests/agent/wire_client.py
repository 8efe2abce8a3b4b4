"""A client made of nothing but the wire of version 1, for tests of the agent's side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from duologue.agent.agent import Agent
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.runtime.tasks import TaskScope
from duologue.schema import v1
from duologue.schema.base import Method
from duologue.transports.base import Transport
from duologue.transports.memory import MemoryTransport, memory_pair
from tests.agent.wire_validator import WireValidator

__all__ = ["EVERYTHING", "RawClient", "RecordingClient", "agent_with", "client_for", "client_on", "raw_client"]

EVERYTHING: dict[str, Any] = {
    "fs": v1.FileSystemCapabilities(read_text_file=True, write_text_file=True),
    "terminal": True,
    "auth": v1.AuthCapabilities(terminal=True),
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
"""All that a client can advertise."""


class RecordingClient:
    """A client that records responses and updates in the order in which they were handled.

    Attributes:
        updates: Every update, in order; `sessions` has the session of each.
        judge: Every frame in both directions; `None` without validation.
        asked: The permission questions; `choose` is the kind of option that is chosen, or says it per question, `None`
            answers `cancelled`.
    """

    def __init__(
        self, connection: Connection, handlers: Handlers, cwd: Path, validator: WireValidator | None = None
    ) -> None:
        self.connection = connection
        self.handlers = handlers
        self.cwd = cwd
        self.updates: list[Any] = []
        self.sessions: list[str] = []
        self.asked: list[v1.RequestPermissionRequest] = []
        self.choose: str | None = "allow_once"
        self.hello = v1.InitializeResponse(protocol_version=0)
        self._validator = validator
        self._changed = asyncio.Event()
        handlers.on(v1.SESSION_UPDATE)(self._update)

    async def _update(self, context: Context, params: v1.SessionNotification) -> None:
        self.updates.append(params.update)
        self.sessions.append(params.session_id)
        self.notify_waiters()

    def answer_permission(self) -> None:
        """Answer permission questions from here on; an editor that does not knows no such method."""

        @self.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def ask(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            self.asked.append(params)
            chosen = next((option for option in params.options if option.kind == self.choose), None)
            if chosen is None:
                return v1.RequestPermissionResponse(outcome=v1.CancelledPermissionOutcome())
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=chosen.option_id))

    # --- waiting

    def notify_waiters(self) -> None:
        """Something happened that a test may wait for."""
        self._changed.set()

    async def until(self, is_so: Callable[[], object]) -> None:
        """Until it is so; looked at whenever something happened."""
        while not is_so():
            self._changed.clear()
            await self._changed.wait()

    async def until_updates(self, kind: type[Any], count: int = 1) -> None:
        """Until so many updates of a kind have come."""
        await self.until(lambda: len(self.of(kind)) >= count)

    # --- calling

    async def initialize(self, **capabilities: Any) -> v1.InitializeResponse:
        """Send `initialize` with these client capabilities."""
        request = v1.InitializeRequest(protocol_version=1, client_capabilities=v1.ClientCapabilities(**capabilities))
        self.hello = await self.connection.request(v1.INITIALIZE, request)
        return self.hello

    async def ask(self, method: Method[Any, Any], **fields: Any) -> Any:
        """Any request."""
        return await self.connection.request(method, method.params(**fields))

    async def opened(self, cwd: Path | None = None, **fields: Any) -> v1.NewSessionResponse:
        """Open a session in this directory and return the complete response."""
        fields.setdefault("mcp_servers", [])
        request = v1.NewSessionRequest(cwd=str(cwd or self.cwd), **fields)
        return await self.connection.request(v1.SESSION_NEW, request)

    async def new(self, cwd: Path | None = None, **fields: Any) -> str:
        """Open a session in this directory."""
        return (await self.opened(cwd, **fields)).session_id

    async def load(self, session_id: str, cwd: Path | None = None, **fields: Any) -> v1.LoadSessionResponse:
        """Load a stored session with its replay."""
        fields.setdefault("mcp_servers", [])
        request = v1.LoadSessionRequest(session_id=session_id, cwd=str(cwd or self.cwd), **fields)
        return await self.connection.request(v1.SESSION_LOAD, request)

    async def resume(self, session_id: str, **fields: Any) -> v1.ResumeSessionResponse:
        """Resume a stored session without a replay."""
        request = v1.ResumeSessionRequest(session_id=session_id, cwd=str(self.cwd), **fields)
        return await self.connection.request(v1.SESSION_RESUME, request)

    async def fork(self, session_id: str, **fields: Any) -> str:
        """Fork a session."""
        request = v1.ForkSessionRequest(session_id=session_id, cwd=str(self.cwd), **fields)
        return (await self.connection.request(v1.SESSION_FORK, request)).session_id

    async def sessions_page(self, **fields: Any) -> v1.ListSessionsResponse:
        """Return one page of sessions."""
        return await self.connection.request(v1.SESSION_LIST, v1.ListSessionsRequest(**fields))

    async def close(self, session_id: str) -> None:
        """End a session."""
        await self.connection.request(v1.SESSION_CLOSE, v1.CloseSessionRequest(session_id=session_id))

    async def delete(self, session_id: str) -> None:
        """Forget a session."""
        await self.connection.request(v1.SESSION_DELETE, v1.DeleteSessionRequest(session_id=session_id))

    async def set_mode(self, session_id: str, mode_id: str) -> None:
        """Switch the mode as the user would."""
        request = v1.SetSessionModeRequest(session_id=session_id, mode_id=mode_id)
        await self.connection.request(v1.SESSION_SET_MODE, request)

    async def prompt(
        self, session_id: str, *blocks: str | v1.ContentBlock, meta: dict[str, Any] | None = None
    ) -> v1.PromptResponse:
        """Run one turn."""
        content = [v1.TextContent(text=block) if isinstance(block, str) else block for block in blocks]
        request = v1.PromptRequest(session_id=session_id, prompt=content, meta=meta)
        return await self.connection.request(v1.SESSION_PROMPT, request)

    async def cancel(self, session_id: str) -> None:
        """End the running turn."""
        await self.connection.notify(v1.SESSION_CANCEL, v1.CancelNotification(session_id=session_id))

    # --- what came of it

    @property
    def validator(self) -> WireValidator:
        """Every frame, in order."""
        assert self._validator is not None
        return self._validator

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the updates of one kind."""
        return [update for update in self.updates if isinstance(update, kind)]

    @property
    def text(self) -> str:
        """All the agent said."""
        contents = [chunk.content for chunk in self.of(v1.AgentMessageChunk)]
        return "".join(content.text for content in contents if isinstance(content, v1.TextContent))

    @property
    def statuses(self) -> list[str]:
        """How the tool calls went, one after the other."""
        changes = [update for update in self.updates if isinstance(update, v1.ToolCall | v1.ToolCallUpdate)]
        return [change.status for change in changes if change.status is not None]


def agent_with(handler: Any = None, **options: Any) -> Agent[Any]:
    """Return an agent with this handler; without one it repeats the prompt."""

    async def echo(turn: Any) -> None:
        await turn.say(turn.text)

    agent: Agent[Any] = Agent("tested", version="1.0", **options)
    agent.on_prompt(handler or echo)
    return agent


@asynccontextmanager
async def client_on(
    transport: Transport, cwd: Path, *, validator: WireValidator | None = None, **capabilities: Any
) -> AsyncGenerator[RecordingClient]:
    """Connect a client that has sent `initialize`, on any transport."""
    handlers = Handlers()
    observers = () if validator is None else (validator,)
    async with Connection(transport, handlers, observers=observers) as connection:
        client = RecordingClient(connection, handlers, cwd, validator)
        await client.initialize(**capabilities)
        yield client
    assert validator is None or validator.complaints == []


@asynccontextmanager
async def client_for(
    agent: Agent[Any], cwd: Path, *, validate: bool = False, **capabilities: Any
) -> AsyncGenerator[RecordingClient]:
    """Connect a client in memory; `validate` validates what the agent writes by the official schema."""
    near, far = memory_pair()
    serving = TaskScope().start(agent.serve(far))
    async with client_on(near, cwd, validator=WireValidator() if validate else None, **capabilities) as client:
        yield client
    await serving


class RawClient:
    """A client that writes what it wants, and reads what comes."""

    def __init__(self, wire: MemoryTransport) -> None:
        self._wire = wire
        self._unread: list[dict[str, Any]] = []

    def send(self, **members: Any) -> None:
        """Write one message."""
        self._wire.send(json.dumps({"jsonrpc": "2.0", **members}).encode())

    async def receive(self) -> dict[str, Any]:
        """Return the agent's next message."""
        while not self._unread:
            frames = await self._wire.receive()
            assert frames, "the agent closed the connection"
            self._unread = [json.loads(frame) for frame in frames]
        return self._unread.pop(0)

    async def answer_to(self, id: int | str | None) -> dict[str, Any]:
        """Send a request and return its response; messages before it are dropped."""
        while True:
            message = await self.receive()
            if "method" not in message and message["id"] == id and type(message["id"]) is type(id):
                return message

    async def ask(self, id: int | str, method: str, params: Any = None) -> dict[str, Any]:
        """Ask and wait for the answer."""
        self.send(id=id, method=method, **({} if params is None else {"params": params}))
        return await self.answer_to(id)

    async def initialize(self, **params: Any) -> dict[str, Any]:
        """Send `initialize`."""
        return await self.ask("hello", "initialize", {"protocolVersion": 1, **params})


@asynccontextmanager
async def raw_client(agent: Agent[Any]) -> AsyncGenerator[RawClient]:
    """Connect a client that has not sent `initialize`."""
    near, far = memory_pair()
    serving = TaskScope().start(agent.serve(far))
    async with near:
        yield RawClient(near)
    await serving
