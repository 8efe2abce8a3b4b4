"""Options for connecting all MCP servers of a session; imports nothing of the SDK, which is slow to load."""

from __future__ import annotations

from collections.abc import Collection, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from duologue.conversation.session_setup import Implementation
from duologue.mcp.acp_channel import AcpChannel
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
    """Options for connecting all MCP servers of a session.

    Attributes:
        client: Name and version sent to servers.
        cwd: Working directory of server processes.
        allow_hosts: Hosts that may have a private IP address; `None` allows every host that the session names.
        max_message_bytes: Largest message to accept from a server.
        channel: Carries MCP to servers in the client, if the client supports that.
        user: Shows elicitations to the user, if the client supports that.
    """

    client: Implementation
    cwd: str | None
    allow_hosts: Collection[str] | None
    max_message_bytes: int
    channel: AcpChannel | None
    user: ElicitationTarget | None = None
