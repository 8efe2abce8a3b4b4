"""Saying what a bridge cannot pass on: once per connection and kind, to the log and to editors that take notices."""

from __future__ import annotations

import logging

from duologue.conversation.updates import NoticeUpdate
from duologue.protocol.interfaces import ClientProxy

__all__ = ["LossReporter"]

_log = logging.getLogger("duologue.relay")

KINDS = {
    "notices": "this editor takes no notices: those of the agent are not shown",
    "compaction": "this editor is not told when the agent shortens its context",
    "subagents": "this editor is not told of sessions that the agent starts itself",
    "plans": "this editor shows one plan and nothing but its steps",
    "replaced": "the agent changed what it had said: it is shown again as another message",
    "withdrawn": "the agent took back what it had said: it stays where it is",
    "terminals": "commands that the agent runs are shown as text, and cannot be stopped alone",
    "cleared": "the agent cleared a part of a tool call that this editor keeps",
    "background": "this editor is not told of work that goes on beside the turns",
    "switches": "this editor knows no settings that are on or off",
    "stop reason": "the agent ended a turn for a reason that this editor has no word for",
    "mcp": "the agent starts no MCP servers itself; it will refuse those that are commands",
    "list": "the agent does not list its sessions: only those that are open here are shown",
    "replay": "the agent does not tell earlier sessions again: what was said in this one is not shown",
    "close": "the agent closes no sessions: this one is forgotten here, and ends with the agent",
    "logout": "the agent cannot log out",
}
"""What can get lost, in the words of whoever misses it."""


class LossReporter:
    """What was not passed on so far, over one connection.

    Attributes:
        said: The kinds that were told, in order.
    """

    def __init__(self) -> None:
        self.said: list[str] = []

    async def tell(self, kind: str, editor: ClientProxy | None = None, session_id: str | None = None) -> None:
        """Say that something of this kind got lost, if nobody has said so yet."""
        if kind in self.said:
            return
        self.said.append(kind)
        _log.warning("between the versions: %s", KINDS[kind])
        if editor is not None and session_id is not None and editor.features.notices and not editor.is_gone:
            await editor.update(session_id, NoticeUpdate(severity="info", title=_sentence(KINDS[kind])))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
