"""Report what a bridge cannot pass on, once per connection and kind: in the log, and to clients that show notices."""

from __future__ import annotations

import logging

from duologue.conversation.updates import NoticeUpdate
from duologue.protocol.shared.client_proxy import ClientProxy

_log = logging.getLogger("duologue.relay")

KINDS = {
    "compaction": "this client is not notified when the agent compacts its context",
    "subagents": "this client is not notified of sessions that the agent starts itself",
    "plans": "this client shows one plan, and only its steps",
    "replaced": "the agent changed a message: it is shown again as another message",
    "withdrawn": "the agent withdrew a message: it stays visible",
    "terminals": "commands that the agent runs are shown as text, and cannot be stopped separately",
    "cleared": "the agent cleared a part of a tool call that this client keeps",
    "background": "this client is not notified of work between the turns",
    "switches": "this client does not support boolean settings",
    "stop reason": "the agent ended a turn for a reason that this client does not know",
    "mcp": "the agent starts no MCP servers itself; it will reject those that are commands",
    "list": "the agent does not list its sessions: only those that are open here are shown",
    "replay": "the agent does not replay earlier sessions: the messages of this one are not shown",
    "close": "the agent closes no sessions: this one is dropped here, and ends with the agent",
    "logout": "the agent cannot log out",
}
"""Descriptions for the user of what a bridge can lose."""


class LossReporter:
    """Report the losses of one connection.

    Attributes:
        reported: The kinds that were reported, in order.
    """

    def __init__(self) -> None:
        self.reported: list[str] = []

    async def report(self, kind: str, client: ClientProxy | None = None, session_id: str | None = None) -> None:
        """Report that something of this kind got lost, the first time."""
        if kind in self.reported:
            return
        self.reported.append(kind)
        text = KINDS.get(kind, f"this client does not support {kind}: those of the agent are not shown")
        _log.warning("bridge: %s", text)
        if client is not None and session_id is not None and client.capabilities.notices and not client.is_gone:
            await client.update(session_id, NoticeUpdate(severity="info", title=_sentence(text)))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
