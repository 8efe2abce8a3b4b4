"""The MCP servers of one session: started in parallel, supervised one by one, ended together.

    starting    the process starts or the URL is being connected; calls wait
    ready       the tools are listed
    restarting  the server died and is restarted after a pause, each longer than the one before; calls wait
    failed      the server never started, or died after its last restart; `errors` says why, calls fail at once
    closed      the session is over

A server that fails does not fail the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import Self

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation, McpServer
from duologue.errors import McpServerUnavailable
from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES
from duologue.mcp.acp_channel import AcpChannel, SendMessage
from duologue.mcp.options import ConnectOptions, ElicitationTarget
from duologue.mcp.results import McpResult
from duologue.mcp.server_supervisor import State, SupervisedServer
from duologue.mcp.tools import McpTool, OnProgress
from duologue.runtime.tasks import TaskScope

START_SECONDS = 30.0
"""Seconds for a server to start: it may have to be downloaded first."""

CALL_SECONDS = 600.0
"""Seconds for a tool to answer: it may ask the user."""

PARALLEL_STARTS = 8
"""Servers started at the same time; more would slow each other down."""

RESTART_PAUSES = (0.5, 2.0, 8.0)
"""Seconds before each restart; their number is the number of restarts."""

CLOSE_SECONDS = 4.25
"""Seconds for all servers to end by themselves; the others are killed, so that none is left after five seconds."""

KILL_SECONDS = 0.5


class McpServers:
    """The MCP servers of a session and their tools. Entering the context starts them, leaving it ends them.

    Entering does not wait for the servers: `ready()` does, and so does every call. Servers that failed are in `errors`.

    Args:
        servers: The servers that the client named.
        send: Sends the request `mcp/message` to servers that run in the client.
        cwd: Working directory of server processes; the session's directory.
        client: Name and version sent to servers.
        allow_hosts: Hosts that may have a private IP address. By default all addresses except link-local ones are
            allowed; with a list, only these hosts and public addresses.
        start_timeout: Seconds for a server to start and to list its tools.
        call_timeout: Seconds for a tool to answer; `None` for no limit.
        parallel: Servers started at the same time.
        restart_pauses: Seconds before each restart of a server that died; after the last it has failed.
        max_message_bytes: Largest message to accept from a server.
        on_change: Called with the name of a server whose state or tools have changed.
        user: Shows elicitations of servers to the user; without it, servers cannot send any.
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
        self._channel = None if send is None else AcpChannel(send)
        self._call_timeout = call_timeout
        self._tasks: TaskScope | None = None
        self._servers: dict[str, SupervisedServer] = {}
        self._not_started: dict[str, str] = {}
        self._on_change = on_change
        options = ConnectOptions(
            client=client or Implementation("duologue", "0"),
            cwd=cwd,
            allow_hosts=allow_hosts,
            max_message_bytes=max_message_bytes,
            channel=self._channel,
            user=user,
            start_timeout=start_timeout,
            restart_pauses=restart_pauses,
            slots=asyncio.Semaphore(parallel),
            on_change=self._changed,
            call=self.call,
        )
        for server in servers:
            self._add(server, options)

    def _add(self, server: McpServer, options: ConnectOptions) -> None:
        if server.name not in self._servers:
            self._servers[server.name] = SupervisedServer(server, options)
            return
        label = next(label for number in count(2) if (label := f"{server.name} ({number})") not in self._not_started)
        self._not_started[label] = f"another server is called {server.name!r}, too; this one was not started"

    async def __aenter__(self) -> Self:
        self._tasks = TaskScope()
        for server in self._servers.values():
            self._tasks.start(server.run())
        return self

    async def __aexit__(self, *error: object) -> None:
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
                # A server that has not ended is cancelled a second time, which kills its process.
                await tasks.cancel(KILL_SECONDS)

    async def ready(self) -> None:
        """Wait until every server has started or failed."""
        for server in self._servers.values():
            await server.settled()

    @property
    def tools(self) -> list[McpTool]:
        """The tools of all servers that have listed them."""
        return [tool for server in self._servers.values() for tool in server.tools]

    @property
    def states(self) -> dict[str, State]:
        """The state of each server, by name."""
        return {name: server.state for name, server in self._servers.items()}

    @property
    def errors(self) -> dict[str, str]:
        """Reasons why servers failed, by name. A second server of the same name is rejected, as `name (2)`."""
        failed = {name: server.error or "" for name, server in self._servers.items() if server.state == "failed"}
        return {**failed, **self._not_started}

    async def call(
        self,
        server: str,
        tool: str,
        arguments: JsonObject | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> McpResult:
        """Call a tool; wait for its server if it is being started. Cancelling this cancels the call.

        Args:
            server: The name of the server.
            tool: The name of the tool on it.
            arguments: The arguments, by the tool's input schema.
            timeout: Seconds for the result; `call_timeout` if not given.
            on_progress: Awaited with each progress report.

        Raises:
            McpServerUnavailable: There is no such server, it has failed, or it ended before it answered.
            McpBackendFailed: The server answered with an error, an invalid result, or not in time.
        """
        running = self._servers.get(server)
        if running is None:
            raise McpServerUnavailable(f"no MCP server is called {server!r}")
        if self._tasks is None:
            raise McpServerUnavailable("the MCP servers of this session do not run")
        connection = await running.connection()
        seconds = self._call_timeout if timeout is None else timeout
        return await connection.call(tool, arguments or {}, timeout=seconds, on_progress=on_progress)

    def on_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None:
        """Route a notification `mcp/message` of the client about an active request."""
        if self._channel is not None:
            self._channel.deliver(server_id, request_id, method, params)

    def _changed(self, name: str) -> None:
        if self._on_change is not None:
            self._on_change(name)
