"""Connect to an agent: a command to start, a URL, or an agent object in this process.

`connect` always returns or raises within its timeout, whatever the agent prints, sends or leaves out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct, structs

from duologue.client.agent import CANCEL_SECONDS, RemoteAgent
from duologue.client.auth import AuthMethodChooser, AuthOptions, can_use_terminal
from duologue.client.request_handler import ClientRequestHandler
from duologue.client.services.elicitation import ElicitationHandler
from duologue.client.supervisor import LiveConnection, Restart
from duologue.client.target import AgentTarget, Target, TargetOptions
from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation
from duologue.conversation.transcript import MAX_TRANSCRIPT_BYTES
from duologue.errors import (
    AgentExited,
    ConnectionLost,
    DowngradeRequired,
    InitializeTimeout,
    InternalError,
    MethodNotFound,
    StartError,
)
from duologue.protocol.feature_filter import Unstable, enabled_features
from duologue.protocol.negotiation import check_versions, initialize
from duologue.protocol.shared.agent_proxy import AgentProxy
from duologue.protocol.values import AuthStatus, InitializeResult
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Handlers
from duologue.runtime.observers import FrameObserver
from duologue.transports.base import Transport
from duologue.transports.process.transport import ProcessTransport

if TYPE_CHECKING:
    from duologue.client.permissions.policy import Permissions
    from duologue.client.services.terminals import Terminals
    from duologue.client.services.tool_server import Tools
    from duologue.client.services.workspace import Workspace
    from duologue.compat.dialects import Dialect
    from duologue.mcp.tool_server.server import ToolServer
    from duologue.recording.recorder import Recorder
    from duologue.transports.remote.url import TLSVerify

INITIALIZE_SECONDS = 30.0
"""Time for an agent to start and to answer `initialize`; packages may have to be downloaded first."""


def connect(
    target: Target | AgentTarget,
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
    lock: str | Path | None = None,
    startup_timeout: float = INITIALIZE_SECONDS,
    login: AuthOptions | AuthMethodChooser | str | None = None,
    restart: Restart | bool = False,
    stall_timeout: float | None = None,
    cancel_timeout: float = CANCEL_SECONDS,
    max_transcript_bytes: int | None = MAX_TRANSCRIPT_BYTES,
    protocol_versions: tuple[int, ...] = (1,),
    unstable: Unstable = False,
    dialect: Dialect | None = None,
    meta: JsonObject | None = None,
    warm: bool = False,
) -> AbstractAsyncContextManager[RemoteAgent]:
    """Connect to an agent; leaving the block ends everything that was started.

    Args:
        target: A name (`gemini`, `gemini@0.61.0`), a command (string or list), a URL (`ws`, `wss`, `http`, `https`), an
            `Agent`, or an open transport. A name is looked up as `builtin`, in the lock file, in the configuration and
            on PATH.
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
        lock: Lock file of a project in which a name is looked up, instead of the user's own.
        startup_timeout: Seconds until the agent must have answered `initialize`.
        login: How to authenticate when the agent requires it: a method id, a chooser, or `AuthOptions`.
        restart: Start a lost agent again when it is next needed: `True`, or a `Restart` policy.
        stall_timeout: Seconds without activity after which a turn reports `StallDetected`, then is cancelled.
        cancel_timeout: Seconds that the agent gets to end a cancelled turn, which then ends without it.
        max_transcript_bytes: Memory limit of one session's transcript; `None`: no limit.
        protocol_versions: Versions offered to the agent; `(1, 2)` adds the draft of version 2.
        unstable: Unstable features to use: `True` for all, or their names.
        dialect: Name of an older dialect that the agent speaks.
        meta: Custom capabilities, sent in `_meta` of the client's capabilities.
        warm: Keep a new session ready, opened in advance with the options of the last `new_session`, which hands it
            out if it is called with the same ones.

    Raises:
        StartError: The agent cannot be started, or did not answer in time.
        AgentExited: The agent's process ended before it answered.
        ProtocolViolation: The agent speaks none of `protocol_versions`.
    """
    login = login if login is None or isinstance(login, AuthOptions) else AuthOptions(login)
    versions, features = check_versions(protocol_versions), enabled_features(unstable)
    _check_dialect(dialect)
    options = TargetOptions(cwd=cwd, env=env, on_stderr=on_stderr, headers=headers, token=token, tls=tls, lock=lock)
    reached = target if isinstance(target, AgentTarget) else AgentTarget(target, **options)
    handlers, policy = handlers or Handlers(), _restart_policy(reached, restart)
    handler = ClientRequestHandler(
        reached.name, permissions, workspace, terminals, on_elicit, on_elicitation_complete, on_login_status
    )
    connector = _Connector(
        reached, handler, handlers, observers, client_info, startup_timeout, versions, features, login, dialect, meta
    )
    limits = (stall_timeout, cancel_timeout, max_transcript_bytes)
    agent = partial(RemoteAgent, handler, connector, reached, policy, login, *limits)
    tool_server = _tool_server(tools)
    return _Connecting(lambda: _connected(agent(), connector, tool_server, record, warm))


class _Connecting(AbstractAsyncContextManager[RemoteAgent]):
    """The result of `connect`, which `async with` opens; every other use is an error that names the fix."""

    def __init__(self, open_connection: Callable[[], AbstractAsyncContextManager[RemoteAgent]]) -> None:
        self._open_connection = open_connection
        self._connection: AbstractAsyncContextManager[RemoteAgent] | None = None

    async def __aenter__(self) -> RemoteAgent:
        if self._connection is not None:
            raise RuntimeError(f"a connection is opened once; {HOW_TO_CONNECT}")
        self._connection = self._open_connection()
        return await self._connection.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._connection is not None, "it was entered"
        return await self._connection.__aexit__(kind, error, trace)

    if not TYPE_CHECKING:  # type checkers report these uses themselves

        def __enter__(self) -> NoReturn:
            raise TypeError(f"`connect` needs `async with` instead of `with`; {HOW_TO_CONNECT}")

        def __exit__(self, *error: object) -> None: ...

        def __await__(self) -> NoReturn:
            raise TypeError(f"`connect` needs `async with` instead of `await`; {HOW_TO_CONNECT}")

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"`connect(…)` is not connected yet and has no `{name}`; {HOW_TO_CONNECT}")


HOW_TO_CONNECT = (
    "write `async with connect(…) as agent:` in an `async def`, or, without an event loop, "
    "`with duologue.sync.connect(…) as agent:`"
)


def _check_dialect(dialect: Dialect | None) -> None:
    if dialect is not None:
        from duologue.compat.dialects import check_dialect

        check_dialect(dialect)


def _tool_server(tools: Tools) -> ToolServer | None:
    if tools == ():
        return None
    from duologue.client.services.tool_server import as_tool_server

    return as_tool_server(tools)


@asynccontextmanager
async def _connected(
    agent: RemoteAgent, connector: _Connector, tools: ToolServer | None, record: str | Path | None, warm: bool
) -> AsyncGenerator[RemoteAgent]:
    handler, target, tool_servers = agent._request_handler, connector.target, AsyncExitStack()
    recorder: Recorder | None = None
    if record is not None:
        from duologue.recording.recorder import Recorder

        recorder = Recorder(record)
        connector.observers = (*connector.observers, recorder)
    try:
        await agent._supervisor.open()
        if tools is not None:
            from duologue.client.services.tool_server import offered_tool_server

            over_acp = agent.capabilities.mcp_acp and agent._proxy.allows("mcp_over_acp")
            capabilities = structs.replace(agent.capabilities, mcp_acp=over_acp)
            server = offered_tool_server(tools, capabilities, handler.offered, not target.is_remote_host)
            agent._tool_servers.append(await tool_servers.enter_async_context(server))
        if warm:
            agent._new_sessions.keep_spare(agent._session_params(target.cwd or "."))
        yield agent
    finally:
        await agent._new_sessions.aclose()
        turns = [turn for session in handler.sessions.values() for turn in session._prompts.abandoned_turns()]
        await asyncio.gather(*(turn._cancel_unread() for turn in turns))
        await handler.aclose()
        await agent._tasks.cancel(1.0)
        await agent._supervisor.aclose()
        await target.aclose()
        # After the agent, which would take their end for a crash of the server.
        await tool_servers.aclose()
        if recorder is not None:
            await asyncio.to_thread(recorder.close)


def _restart_policy(target: AgentTarget, restart: Restart | bool) -> Restart | None:
    if restart is False:
        return None
    if not target.is_reopenable:
        raise ValueError("`restart` needs a command, a URL or an agent object: a transport cannot be opened again")
    return Restart() if restart is True else restart


class _Connector(Struct, eq=False):
    """Opens connections to one agent and initializes them; the fields are arguments of `connect`."""

    target: AgentTarget
    request_handler: ClientRequestHandler
    handlers: Handlers
    observers: tuple[FrameObserver, ...]
    client_info: Implementation | None
    startup_timeout: float
    protocol_versions: tuple[int, ...]
    unstable: frozenset[str]
    login: AuthOptions | None
    dialect: Dialect | None
    meta: JsonObject | None

    async def __call__(self) -> LiveConnection:
        """Connect and initialize.

        Raises:
            StartError: The agent cannot be started, or did not answer in time.
            ConnectionLost: The agent ended before it answered.
            ProtocolViolation: The agent speaks none of the protocol versions.
        """
        try:
            return await self._connect(self.protocol_versions)
        except DowngradeRequired:
            if 1 not in self.protocol_versions:
                raise
            return await self._connect((1,))

    async def _connect(self, versions: tuple[int, ...]) -> LiveConnection:
        await self.target.prepare()
        transport = self.target.open()
        # Handlers are copied: what a connection registers is bound to its own sessions.
        connection = Connection(
            self._with_dialect(transport), self.handlers.copy(), ignore_stray_output=True, observers=self.observers
        )
        await connection.__aenter__()
        try:
            return LiveConnection(connection, *await self._initialize(versions, connection, transport))
        except BaseException:
            await connection.aclose()
            raise

    def _with_dialect(self, transport: Transport) -> Transport:
        if self.dialect is None:
            return transport
        from duologue.compat.normaliser import Normaliser
        from duologue.compat.transport import NormalisedTransport

        credentials = None if self.login is None else self.login.credentials_for
        return NormalisedTransport(transport, Normaliser(self.dialect, "client", credentials=credentials))

    async def _initialize(
        self, versions: tuple[int, ...], connection: Connection, transport: Transport
    ) -> tuple[AgentProxy, InitializeResult]:
        client_info = self.client_info or _own_info()
        terminal_login = can_use_terminal(self.target, self.login)
        capabilities = structs.replace(
            self.request_handler.capabilities,
            terminal_login=terminal_login,
            background_tasks="background_tasks" in self.unstable,
            meta=self.meta,
        )
        try:
            async with asyncio.timeout(self.startup_timeout):
                return await initialize(
                    connection,
                    self.request_handler,
                    client_info,
                    capabilities,
                    versions,
                    self.unstable,
                    can_start_over=self.target.is_reopenable,
                )
        except TimeoutError:
            self.target.mark_unresponsive()
            raise InitializeTimeout(_no_answer(transport, connection.stray_output, self.startup_timeout)) from None
        except InternalError as error:
            self.target.add_stderr_to(error)
            raise
        except MethodNotFound as error:
            raise StartError(f"the program does not know `initialize`, with which ACP begins{NOT_AN_AGENT}") from error
        except AgentExited as end:
            raise _exited_early(end, connection.stray_output) from None
        except ConnectionLost as lost:
            # Over HTTP it is not known before the first request whether there is a server at all.
            if isinstance(lost.__cause__, StartError):
                raise lost.__cause__ from None
            raise


NOT_AN_AGENT = "; is it an ACP agent? Many need a flag for that, such as --acp"
"""Hint in errors about a program that may be no agent."""


def _own_info() -> Implementation:
    import importlib.metadata  # 10 ms, which pass while the agent starts

    return Implementation("duologue", importlib.metadata.version("duologue"))


def _exited_early(end: AgentExited, stray_output: str) -> AgentExited:
    """Add what the agent printed, or a hint: there are agents that print one sentence and exit with 0."""
    printed = f"; it printed {stray_output}" if stray_output else ""
    hint = "" if end.stderr else NOT_AN_AGENT
    how = str(end).partition("\n")[0]
    message = f"{how} before it answered `initialize`{printed}{hint}"
    return AgentExited(message, exit_code=end.exit_code, signal=end.signal, stderr=end.stderr)


def _no_answer(transport: Transport, stray_output: str, seconds: float) -> str:
    stderr = transport.stderr_tail if isinstance(transport, ProcessTransport) else ""
    printed = f"; it printed {stray_output}" if stray_output else ""
    written = f"; the last it wrote to stderr:\n{stderr}" if stderr else ""
    return f"the agent did not answer `initialize` within {seconds:g} s{NOT_AN_AGENT}{printed}{written}"
