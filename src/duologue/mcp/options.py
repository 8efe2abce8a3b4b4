"""What all servers of a session are reached with. It needs nothing of the SDK, which is slow to load."""

from __future__ import annotations

from collections.abc import Collection, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from duologue.conversation.session_setup import Implementation
from duologue.mcp.acp_channel import AcpChannel
from duologue.protocol.values import Elicitation, ElicitationAnswer

__all__ = ["ConnectOptions", "ElicitationTarget"]


class ElicitationTarget(Protocol):
    """Who answers what servers ask while a tool of theirs runs."""

    def ask(self, question: Elicitation) -> Coroutine[Any, Any, ElicitationAnswer]:
        """The answer; a question that must not be asked is a `RequestError`. Cancelled, it is taken back."""
        ...

    async def completed(self, elicitation_id: str) -> None:
        """What an address was to be visited for is done."""
        ...


@dataclass(frozen=True, kw_only=True)
class ConnectOptions:
    """What all servers of a session are reached with.

    Attributes:
        client: Who we say we are.
        cwd: Where processes are started.
        allow_hosts: Hosts that may be on a private address; None for whatever the session names.
        max_message_bytes: Longest message that is taken from a server.
        carrier: The way to servers that live in the client, if it carries MCP.
        user: Who answers the servers' questions, if anybody does.
    """

    client: Implementation
    cwd: str | None
    allow_hosts: Collection[str] | None
    max_message_bytes: int
    carrier: AcpChannel | None
    user: ElicitationTarget | None = None
