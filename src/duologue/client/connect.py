"""Connect to an agent: a command to start, a URL, or an agent object in this process.

`connect` always returns or raises within its timeout, whatever the agent prints, sends or leaves out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from duologue.client.agent import RemoteAgent
from duologue.client.auth import AuthMethodChooser, AuthOptions
from duologue.client.connector import Connector
from duologue.client.permissions.policy import Permissions
from duologue.client.request_handler import ClientCallbacks, ClientRequestHandler, ElicitationHandler
from duologue.client.services.terminals import Terminals
from duologue.client.services.tool_server import Tools, as_tool_server, offered_tool_server
from duologue.client.services.workspace import Workspace
from duologue.client.supervisor import RecoveryOptions, Restart
from duologue.client.target import AgentTarget, ProcessOptions, RemoteOptions, Target
from duologue.compat.dialects import Dialect, check_dialect
from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation
from duologue.conversation.transcript import MAX_TRANSCRIPT_BYTES
from duologue.mcp.tool_server.server import ToolServer
from duologue.protocol.feature_filter import Unstable, enabled_features
from duologue.protocol.negotiation import check_versions
from duologue.protocol.values import AuthStatus
from duologue.recording.recorder import Recorder
from duologue.runtime.connection import FrameObserver
from duologue.runtime.handlers import Handlers
from duologue.transports.remote.url import TLSVerify

__all__ = ["Target", "connect"]

INITIALIZE_SECONDS = 30.0
"""How long an agent may take to start and to answer; packages may have to be downloaded first."""


def connect(
    target: Target,
    *,
    permissions: Permissions | None = None,
    workspace: Workspace | None = None,
    terminals: Terminals | None = None,
    on_elicit: ElicitationHandler | None = None,
    on_elicitation_complete: Callable[[str], None] | None = None,
    on_login_status: Callable[[AuthStatus], None] | None = None,
    on_stderr: Callable[[bytes], None] | None = None,
    handlers: Handlers | None = None,
    tools: Tools = (),
    observers: tuple[FrameObserver, ...] = (),
    record: str | Path | None = None,
    client_info: Implementation | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    tls: TLSVerify = None,
    startup_timeout: float = INITIALIZE_SECONDS,
    login: AuthOptions | AuthMethodChooser | str | None = None,
    restart: Restart | bool = False,
    stall_timeout: float | None = None,
    max_transcript_bytes: int | None = MAX_TRANSCRIPT_BYTES,
    protocol_versions: tuple[int, ...] = (1,),
    unstable: Unstable = False,
    dialect: Dialect | None = None,
    meta: JsonObject | None = None,
) -> AbstractAsyncContextManager[RemoteAgent]:
    """Connect to an agent; leaving the block ends everything that was started.

    Args:
        target: A command (string or list), a URL (`ws`, `wss`, `http`, `https`), an `Agent`, or an open transport.
        permissions: Policy that decides the agent's permission requests. Default: it may only read.
        workspace: Files offered to the agent. Default: none.
        terminals: Commands the agent may run here. Default: none.
        on_elicit: Called with a form or URL that the agent asks the user about; returns the user's reply.
        on_elicitation_complete: Called with the id of a URL elicitation that was completed elsewhere.
        on_login_status: Called when the agent reports whether the user is logged in.
        on_stderr: Called with what the agent's process writes to stderr, in pieces.
        handlers: Custom methods the agent may call; each connection works with a copy.
        tools: Python functions offered to the agent as an MCP server.
        observers: Called with the direction and bytes of every frame.
        record: File that receives every frame with secrets removed; see `duologue.recording`.
        client_info: Name and version sent to the agent. Default: duologue's own.
        cwd: Working directory of a command.
        env: Environment variables added to a command's.
        headers: HTTP headers sent to a remote agent.
        token: Bearer token sent to a remote agent.
        tls: TLS verification: an `SSLContext`, a CA file added to the system's, or `False` to disable it.
        startup_timeout: Seconds until the agent must have answered `initialize`.
        login: How to authenticate when the agent requires it: a method id, a chooser, or `AuthOptions`.
        restart: Start a lost agent again when it is next needed: `True`, or a `Restart` policy.
        stall_timeout: Seconds without activity after which a turn reports `StallDetected`, then is cancelled.
        max_transcript_bytes: Memory limit of one session's transcript; `None`: no limit.
        protocol_versions: Versions offered to the agent; `(1, 2)` adds the draft of version 2.
        unstable: Unstable features to use: `True` for all, or their names.
        dialect: Name of an older dialect that the agent speaks.
        meta: Custom capabilities, sent in `_meta` of the client's capabilities.

    Raises:
        StartError: The agent cannot be started, or did not answer in time.
        AgentExited: The agent's process ended before it answered.
        ProtocolViolation: The agent speaks none of `protocol_versions`.
    """
    versions, features, dialect = check_versions(protocol_versions), enabled_features(unstable), check_dialect(dialect)
    reached = AgentTarget(target, ProcessOptions(cwd, env, on_stderr), RemoteOptions(headers, token, tls))
    callbacks = ClientCallbacks(on_elicit, on_elicitation_complete, on_login_status)
    handler = ClientRequestHandler(reached.name, permissions, workspace, terminals, callbacks)
    auth, handlers = _login(login), handlers or Handlers()
    recovery = RecoveryOptions(reached, _policy(reached, restart), auth, stall_timeout, max_transcript_bytes)
    connector = Connector(
        reached, handler, handlers, observers, client_info, startup_timeout, versions, features, auth, dialect, meta
    )
    return _connected(handler, connector, as_tool_server(tools), record, recovery)


@asynccontextmanager
async def _connected(
    handler: ClientRequestHandler,
    connector: Connector,
    tools: ToolServer | None,
    record: str | Path | None,
    recovery: RecoveryOptions,
) -> AsyncGenerator[RemoteAgent]:
    recorder = None if record is None else Recorder(record)
    if recorder is not None:
        connector = replace(connector, observers=(*connector.observers, recorder))
    lending = AsyncExitStack()
    agent = RemoteAgent(handler, connector, recovery)
    try:
        await agent._supervisor.open()
        if tools is not None:
            is_near, over_acp = not recovery.target.is_remote_host, agent._proxy.allows("mcp_over_acp")
            taken = msgspec.structs.replace(agent.capabilities, mcp_acp=agent.capabilities.mcp_acp and over_acp)
            agent._tool_servers.append(
                await lending.enter_async_context(offered_tool_server(tools, taken, handler.offered, is_near))
            )
        yield agent
    finally:
        await asyncio.gather(
            *(turn._leave() for session in handler.sessions.values() for turn in session._abandoned_turns())
        )
        await handler.aclose()
        await agent._tasks.cancel(1.0)
        await agent._supervisor.aclose()
        await recovery.target.aclose()
        # After the agent: one that still runs would take our end for a crash of its server.
        await lending.aclose()
        if recorder is not None:
            await asyncio.to_thread(recorder.close)


def _policy(target: AgentTarget, restart: Restart | bool) -> Restart | None:
    if restart is False:
        return None
    if not target.is_reopenable:
        raise ValueError("a transport cannot be opened again: give `restart` to a command, an address or an agent")
    return Restart() if restart is True else restart


def _login(given: AuthOptions | AuthMethodChooser | str | None) -> AuthOptions | None:
    return given if given is None or isinstance(given, AuthOptions) else AuthOptions(given)
