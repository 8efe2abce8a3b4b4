"""What all servers of a session are reached with. It needs nothing of the SDK, which is slow to load."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from duologue.conversation.setup import Party
from duologue.mcp.carrier import AcpCarrier

__all__ = ["Reach"]


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What all servers of a session are reached with.

    Attributes:
        client: Who we say we are.
        cwd: Where processes are started.
        allow_hosts: Hosts that may be on a private address; None for whatever the session names.
        max_message_bytes: Longest message that is taken from a server.
        carrier: The way to servers that live in the client, if it carries MCP.
    """

    client: Party
    cwd: str | None
    allow_hosts: Collection[str] | None
    max_message_bytes: int
    carrier: AcpCarrier | None
