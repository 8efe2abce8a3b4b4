"""Reaching an agent: a command to start, an address, or an agent object in this very process.

Nothing an agent prints, sends or forgets can keep `connect` waiting for ever, and leaving the block ends everything it
started.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from duologue.client.care import Care
from duologue.client.desk import Answerer, Desk, Listeners
from duologue.client.dial import Dialer
from duologue.client.login import Chooser, Login
from duologue.client.permissions import Permissions
from duologue.client.reach import Start, Target, Visit, Way
from duologue.client.remote import RemoteAgent
from duologue.client.supervise import Restart
from duologue.client.terminals import Terminals
from duologue.client.tools import Tools, as_tool_server, lent
from duologue.client.workspace import Workspace
from duologue.compat.dialects import Dialect, check_dialect
from duologue.conversation.content import JsonObject
from duologue.conversation.setup import Party
from duologue.conversation.transcript import MAX_TRANSCRIPT_BYTES
from duologue.dialects.gate import Unstable, switched_on
from duologue.dialects.negotiation import check_versions
from duologue.dialects.terms import LoginStatus
from duologue.mcp.toolserver import ToolServer
from duologue.runtime.connection import Tap
from duologue.runtime.handlers import Handlers
from duologue.trace.recorder import Recorder
from duologue.transports.address import Trust

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
    on_elicited: Callable[[str], None] | None = None,
    on_login_status: Callable[[LoginStatus], None] | None = None,
    on_stderr: Callable[[bytes], None] | None = None,
    handlers: Handlers | None = None,
    tools: Tools = (),
    taps: tuple[Tap, ...] = (),
    record: str | Path | None = None,
    info: Party | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    tls: Trust = None,
    timeout: float = INITIALIZE_SECONDS,
    login: Login | Chooser | str | None = None,
    restart: Restart | bool = False,
    silence: float | None = None,
    max_transcript_bytes: int | None = MAX_TRANSCRIPT_BYTES,
    versions: tuple[int, ...] = (1,),
    unstable: Unstable = False,
    dialect: Dialect | None = None,
    meta: JsonObject | None = None,
) -> AbstractAsyncContextManager[RemoteAgent]:
    """An agent to talk to, from its start to its end.

    Args:
        target, permissions, workspace, terminals: What to reach; what it may do (read), with which files and commands.
        on_elicit, …: Who is asked and told; see `Listeners`. What the agent's process writes goes to `on_stderr`.
        handlers, tools, taps, record: Methods and functions it may call, observers of every frame, and a file for them.
        info, meta, timeout, versions: Our name, custom capabilities, seconds to answer; `(1, 2)` also speaks a draft.
        cwd, env, headers, token, tls: How a command is started, and how a server knows us; see `Start` and `Visit`.
        login, restart, silence: What to do about an agent that wants a login, is lost, or falls silent; see `Care`.
        unstable, dialect, max_transcript_bytes: `FEATURES` to use, an older form it speaks, what sessions keep.

    Raises:
        StartError, AgentExited, ProtocolViolation: It is not there, ended first, or speaks another version.
    """
    spoken, switched, dialect = check_versions(versions), switched_on(unstable), check_dialect(dialect)
    way = Way(target, Start(cwd, env, on_stderr), Visit(headers, token, tls))
    desk = Desk(way.name, permissions, workspace, terminals, Listeners(on_elicit, on_elicited, on_login_status))
    care = Care(way, _policy(way, restart), _login(login), silence, max_transcript_bytes)
    dialer = Dialer(way, desk, handlers or Handlers(), taps, info, timeout, spoken, switched, care.login, dialect, meta)
    return _connected(desk, dialer, as_tool_server(tools), record, care)


@asynccontextmanager
async def _connected(
    desk: Desk, dialer: Dialer, tools: ToolServer | None, record: str | Path | None, care: Care
) -> AsyncGenerator[RemoteAgent]:
    recorder = None if record is None else Recorder(record)
    if recorder is not None:
        dialer = replace(dialer, taps=(*dialer.taps, recorder))
    lending = AsyncExitStack()
    agent = RemoteAgent(desk, dialer, care)
    try:
        await agent.life.open()
        if tools is not None:
            is_near, over_acp = not care.way.is_elsewhere, agent.proxy.allows("mcp_over_acp")
            taken = msgspec.structs.replace(agent.features, mcp_acp=agent.features.mcp_acp and over_acp)
            agent.lent.append(await lending.enter_async_context(lent(tools, taken, desk.offered, is_near)))
        yield agent
    finally:
        await asyncio.gather(*(turn.leave() for session in desk.sessions.values() for turn in session.left_turns()))
        await desk.aclose()
        await agent.tasks.cancel(1.0)
        await agent.life.aclose()
        await care.way.aclose()
        # After the agent: one that still runs would take our end for a crash of its server.
        await lending.aclose()
        if recorder is not None:
            await asyncio.to_thread(recorder.close)


def _policy(way: Way, restart: Restart | bool) -> Restart | None:
    if restart is False:
        return None
    if not way.can_be_taken_again:
        raise ValueError("a transport cannot be opened again: give `restart` to a command, an address or an agent")
    return Restart() if restart is True else restart


def _login(given: Login | Chooser | str | None) -> Login | None:
    return given if given is None or isinstance(given, Login) else Login(given)
