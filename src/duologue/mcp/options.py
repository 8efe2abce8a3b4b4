"""Options for the MCP servers of a session; imports nothing of the SDK, which is slow to load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from duologue.conversation.session_setup import Implementation
from duologue.mcp.acp_channel import AcpChannel
from duologue.mcp.tools import Call
from duologue.protocol.values import Elicitation, ElicitationAnswer


class ElicitationTarget(Protocol):
    """Shows elicitations of MCP servers to the user while one of their tools runs."""

    def ask(self, elicitation: Elicitation) -> Coroutine[Any, Any, ElicitationAnswer]:
        """Return the user's answer, or raise a `RequestError`. Cancelling it cancels the elicitation."""
        ...

    async def completed(self, elicitation_id: str) -> None:
        """Report that a URL elicitation is complete."""
        ...


@dataclass(frozen=True, kw_only=True)
class ConnectOptions:
    """Options for connecting and supervising all MCP servers of a session.

    Attributes:
        client: Name and version sent to servers.
        cwd: Working directory of server processes.
        allow_hosts: Hosts that may have a private IP address; `None` allows every host that the session names.
        max_message_bytes: Largest message to accept from a server.
        channel: Carries MCP to servers in the client, if the client supports that.
        user: Shows elicitations to the user, if the client supports that.
        start_timeout: Seconds for a server to start.
        restart_pauses: Seconds before each restart; their number is the number of restarts.
        slots: Limits how many servers start at the same time.
        on_change: Called with the name of a server whose state or tools have changed.
        call: Calls a tool of a server.
    """

    client: Implementation
    cwd: str | None
    allow_hosts: Collection[str] | None
    max_message_bytes: int
    channel: AcpChannel | None
    user: ElicitationTarget | None
    start_timeout: float
    restart_pauses: Sequence[float]
    slots: asyncio.Semaphore
    on_change: Callable[[str], None]
    call: Call
