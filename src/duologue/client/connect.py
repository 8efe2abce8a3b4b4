"""Reaching an agent: a command to start, or an agent object in this very process.

Nothing an agent prints, sends or forgets can keep `connect` waiting for ever, and leaving the block ends everything it
started.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from duologue.client.desk import Answerer, Desk
from duologue.client.permissions import Permissions
from duologue.client.reach import Start, Target, Way
from duologue.client.remote import RemoteAgent
from duologue.client.terminals import Terminals
from duologue.client.tools import Tools, as_tool_server, lent
from duologue.client.workspace import Workspace
from duologue.conversation.setup import Party
from duologue.dialects.terms import LoginStatus
from duologue.dialects.v1.client import V1AgentProxy
from duologue.dialects.v1.service import V1ClientService
from duologue.errors import AgentExited, InitializeTimeout
from duologue.mcp.toolserver import ToolServer
from duologue.runtime.connection import Connection, Tap
from duologue.runtime.handlers import Handlers
from duologue.trace.recorder import Recorder
from duologue.transports.base import Transport
from duologue.transports.process import ProcessTransport

__all__ = ["Target", "connect"]

INITIALIZE_SECONDS = 30.0
"""How long an agent may take to start and to answer; packages may have to be downloaded first."""


def connect(
    target: Target,
    *,
    permissions: Permissions | None = None,
    workspace: Workspace | None = None,
    terminals: Terminals | None = None,
    on_elicit: Answerer | None = None,
    on_login_status: Callable[[LoginStatus], None] | None = None,
    on_stderr: Callable[[bytes], None] | None = None,
    handlers: Handlers | None = None,
    tools: Tools = (),
    taps: tuple[Tap, ...] = (),
    record: str | Path | None = None,
    info: Party | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = INITIALIZE_SECONDS,
) -> AbstractAsyncContextManager[RemoteAgent]:
    """An agent to talk to, from its start to its end.

    Args:
        target: What to reach.
        permissions: Who may do what; without it files of the session's directories may be read, and no more.
        workspace, terminals: The files and commands the agent may use through us; without them, none.
        on_elicit: Answers questions to the user.
        on_login_status, on_stderr: Told of logins, and of what the agent's process writes to stderr.
        handlers: Custom methods of ours, for the agent to call.
        tools: Functions of ours that every session gets as an MCP server; see `duologue.client.tools`.
        taps, record: Observers of every frame, and a file to keep them in, secrets removed.
        info: Who we are.
        cwd, env: Where a command is started, and variables to set for it on top of ours.
        timeout: Seconds until the agent must have answered.

    Raises:
        StartError: There is no such command, or it never answered.
        AgentExited: It ended before it answered.
        ProtocolViolation: It speaks another version of the protocol.
    """
    way = Way(target, Start(cwd, env, on_stderr))
    desk = Desk(
        permissions=(permissions if permissions is not None else Permissions()).for_agent(way.name),
        workspace=workspace,
        terminals=terminals,
        on_elicit=on_elicit,
        on_login_status=on_login_status,
    )
    handlers = handlers if handlers is not None else Handlers()
    return _connected(way, desk, handlers, as_tool_server(tools), taps, record, info, timeout)


@asynccontextmanager
async def _connected(
    way: Way,
    desk: Desk,
    handlers: Handlers,
    tools: ToolServer | None,
    taps: tuple[Tap, ...],
    record: str | Path | None,
    info: Party | None,
    timeout: float,  # covers the first exchange only
) -> AsyncGenerator[RemoteAgent]:
    V1ClientService(desk, desk.features, handlers)
    recorder = None if record is None else Recorder(record)
    transport = way.open()
    watchers: tuple[Tap, ...] = taps if recorder is None else (*taps, recorder)
    lending = AsyncExitStack()
    try:
        async with Connection(transport, handlers, skips_noise=True, taps=watchers) as connection:
            agent = RemoteAgent(V1AgentProxy(connection), connection, desk)
            await _introduce(agent, transport, info, timeout)
            if tools is not None:
                agent.lent.append(await lending.enter_async_context(lent(tools, agent.features, desk.offered)))
            agent.tasks.start(_tidy_up(connection, desk))
            try:
                yield agent
            finally:
                await desk.aclose()
                await agent.tasks.cancel(1.0)
    finally:
        await way.aclose()
        # After the agent: one that still runs would take our end for a crash of its server.
        await lending.aclose()
        if recorder is not None:
            await asyncio.to_thread(recorder.close)


async def _introduce(agent: RemoteAgent, transport: Transport, info: Party | None, seconds: float) -> None:
    """The first exchange; an agent that never answers is an error, not a wait."""
    us = info if info is not None else Party("duologue", importlib.metadata.version("duologue"))
    try:
        async with asyncio.timeout(seconds):
            agent.welcomed(await agent.proxy.initialize(us, agent.desk.features))
    except TimeoutError:
        raise InitializeTimeout(_never_answered(transport, agent.connection.noise, seconds)) from None
    except AgentExited as end:
        if noise := agent.connection.noise:
            raise _quoting(end, noise) from None
        raise


def _quoting(end: AgentExited, noise: str) -> AgentExited:
    """There are agents that print one sentence and exit with 0; that sentence is what helps."""
    told = AgentExited(f"{end}; it printed {noise}", exit_code=end.exit_code, signal=end.signal)
    told.stderr = end.stderr
    return told


async def _tidy_up(connection: Connection, desk: Desk) -> None:
    """What the agent started through us does not outlive it, however long its user stays."""
    await connection.wait_closed()
    await desk.hang_up()


def _never_answered(transport: Transport, noise: str, seconds: float) -> str:
    said = transport.stderr_tail if isinstance(transport, ProcessTransport) else ""
    printed = f"; it printed {noise}" if noise else ""
    told = f"; the last it wrote to stderr:\n{said}" if said else ""
    return f"the agent did not answer `initialize` within {seconds:g} s; is it an ACP agent?{printed}{told}"
