"""The MCP servers of one session: started side by side, each with its own fate, ended together.

    starting    the process runs or the address is called; calls wait
    ready       its tools are listed
    restarting  it died; it is started again after a pause, each longer than the one before; calls wait
    failed      it never started, or died once more than it may; `errors` says why, calls fail at once
    closed      the session is over

No failure of a server is a failure of the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from types import TracebackType
from typing import Self

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation, McpServer
from duologue.errors import McpServerUnavailable
from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES
from duologue.mcp.acp_channel import AcpChannel, SendMessage
from duologue.mcp.options import ConnectOptions, ElicitationTarget
from duologue.mcp.results import McpResult
from duologue.mcp.server_supervisor import State, SupervisedServer, SupervisorOptions
from duologue.mcp.tools import McpTool, OnProgress
from duologue.runtime.tasks import TaskScope

__all__ = ["McpServers"]

START_SECONDS = 30.0
"""As long as an agent may take to start: a server may have to be downloaded first."""

CALL_SECONDS = 600.0
"""As long as a person may take to answer, for a tool may ask one."""

PARALLEL_STARTS = 8
"""Servers started at the same time; more would only slow each other down."""

RESTART_PAUSES = (0.5, 2.0, 8.0)
"""Before each restart; their number is the number of restarts."""

CLOSE_SECONDS = 4.25
"""For all servers to end by themselves; what is left is killed, so that nothing remains after five seconds."""

KILL_SECONDS = 0.5


class McpServers:
    """The MCP servers a session was given, and their tools. Entering starts them, leaving ends them.

    Entering does not wait for them: `ready()` does, and so does every call. A server that cannot be used is reported in
    `errors` and nowhere else.

    Args:
        servers: What the session was given.
        send: Carries MCP to servers that live in the client, as the request `mcp/message`.
        cwd: Where processes are started; the directory of the session.
        client: Who we say we are.
        allow_hosts: Hosts that may be on a private address. By default whatever the session names may be reached, save
            link-local addresses; with a list, only these hosts and public addresses.
        start_timeout: Seconds for a server to start and to list its tools.
        call_timeout: Seconds for a tool to answer; None for ever.
        parallel: How many are started at the same time.
        restart_pauses: Seconds before each restart of a server that died; after the last it has failed.
        max_message_bytes: Longest message that is taken from a server.
        on_change: Called with the name of a server whose state or tools have changed.
        user: Answers what servers ask while a tool of theirs runs; without it they are told that nobody does.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        send: SendMessage | None = None,
        cwd: str | None = None,
        client: Implementation | None = None,
        allow_hosts: Collection[str] | None = None,
        start_timeout: float = START_SECONDS,
        call_timeout: float | None = CALL_SECONDS,
        parallel: int = PARALLEL_STARTS,
        restart_pauses: Sequence[float] = RESTART_PAUSES,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        on_change: Callable[[str], None] | None = None,
        user: ElicitationTarget | None = None,
    ) -> None:
        self._carrier = None if send is None else AcpChannel(send)
        self._call_timeout = call_timeout
        self._tasks: TaskScope | None = None
        self._servers: dict[str, SupervisedServer] = {}
        self._refused: dict[str, str] = {}
        self._on_change = on_change
        reach = ConnectOptions(
            client=client or Implementation("duologue", "0"),
            cwd=cwd,
            allow_hosts=allow_hosts,
            max_message_bytes=max_message_bytes,
            carrier=self._carrier,
            user=user,
        )
        supervision = SupervisorOptions(
            reach=reach,
            start_timeout=start_timeout,
            restart_pauses=restart_pauses,
            slots=asyncio.Semaphore(parallel),
            on_change=self._changed,
            call=self.call,
        )
        for server in servers:
            self._add(server, supervision)

    def _add(self, server: McpServer, supervision: SupervisorOptions) -> None:
        if server.name not in self._servers:
            self._servers[server.name] = SupervisedServer(server, supervision)
            return
        label = next(label for number in count(2) if (label := f"{server.name} ({number})") not in self._refused)
        self._refused[label] = f"another server is called {server.name!r}, too; this one was not started"

    async def __aenter__(self) -> Self:
        self._tasks = TaskScope()
        for server in self._servers.values():
            self._tasks.start(server.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End all servers and everything they have started. A second call does nothing."""
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            self._on_change = None
            for server in self._servers.values():
                server.close()
            try:
                await tasks.cancel(CLOSE_SECONDS)
            finally:
                # Whoever is still at it is told a second time, and kills what it was waiting for.
                await tasks.cancel(KILL_SECONDS)

    async def ready(self) -> None:
        """Wait until every server has started or failed."""
        for server in self._servers.values():
            await server.settled()

    @property
    def tools(self) -> list[McpTool]:
        """The tools of all servers, as far as they have listed them."""
        return [tool for server in self._servers.values() for tool in server.tools]

    @property
    def states(self) -> dict[str, State]:
        """How each server is doing, by name."""
        return {name: server.state for name, server in self._servers.items()}

    @property
    def errors(self) -> dict[str, str]:
        """Why servers cannot be used, by name. Of two with one name the second is refused, as `name (2)`."""
        failed = {name: server.error or "" for name, server in self._servers.items() if server.state == "failed"}
        return {**failed, **self._refused}

    async def call(
        self,
        server: str,
        tool: str,
        arguments: JsonObject | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> McpResult:
        """Call a tool, waiting for its server if it is just being started. Cancelled, it cancels the call.

        Args:
            server: The name of the server.
            tool: The name of the tool on it.
            arguments: What its schema asks for.
            timeout: Seconds for the answer; `call_timeout` if not given.
            on_progress: Told how far it has come.

        Raises:
            McpServerUnavailable: No such server, or it cannot be used, or it ended before it answered.
            McpBackendFailed: The server refused the call, or answered nonsense, or did not answer in time.
        """
        running = self._servers.get(server)
        if running is None:
            raise McpServerUnavailable(f"no MCP server is called {server!r}")
        if self._tasks is None:
            raise McpServerUnavailable("the MCP servers of this session do not run")
        link = await running.link()
        seconds = self._call_timeout if timeout is None else timeout
        return await link.call(tool, arguments or {}, timeout=seconds, on_progress=on_progress)

    def on_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None:
        """Take a notification `mcp/message` of the client, about a request that `send` is still waiting for."""
        if self._carrier is not None:
            self._carrier.deliver(server_id, request_id, method, params)

    def _changed(self, name: str) -> None:
        if self._on_change is not None:
            self._on_change(name)
