"""Permission requests to the user, and the "always" answers that a session remembers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from duologue.conversation.content import JsonObject
from duologue.conversation.updates import UNSET, FileChange, ToolCallUpdate
from duologue.errors import ProtocolViolation, RequestError
from duologue.protocol.values import PermissionOption

if TYPE_CHECKING:
    from duologue.agent.session import Session


class PendingPermission:
    """A permission request: the tool call it is about, and what an "always" answer covers.

    Args:
        tool: Everything known about the tool call.
        remember_as: What an "always" answer covers. By default that is all the user was shown: kind, title, name,
            input, locations and content; of a changed file its path and the kind of change, not its text.
        meta: Attached to the request.
    """

    def __init__(self, tool: ToolCallUpdate, remember_as: str | None, meta: JsonObject | None = None) -> None:
        self.tool = tool
        self.meta = meta
        self.key = f"as {remember_as}" if remember_as is not None else _digest(tool)


def _digest(tool: ToolCallUpdate) -> str:
    import hashlib  # loads OpenSSL: later than the first session

    parts = tool.content if isinstance(tool.content, list) else []
    content = [_change_key(each) if isinstance(each, FileChange) else each for each in parts]
    fields = {"title": tool.title, "kind": tool.kind, "name": tool.name, "locations": tool.locations}
    shown = {**fields, "input": tool.raw_input, "content": content}
    known = {key: value for key, value in shown.items() if value is not UNSET}
    return hashlib.sha256(msgspec.json.encode(known, order="deterministic")).hexdigest()


def _change_key(change: FileChange) -> list[str | None]:
    kind = change.kind if change.kind in ("delete", "move") else "edit"
    return [kind, change.path, change.old_path]


async def request_permission(
    session: Session[Any], request: PendingPermission, options: list[PermissionOption]
) -> PermissionOption | None:
    """Return the option that the user chose, or `None`: no answer, cancelled, or an option that was not offered."""
    remembered = session._remembered.get(request.key)
    if remembered is not None:
        return remembered
    if session._is_stored:
        await session.commit()
    try:
        async with asyncio.timeout(session._permission_timeout):
            option_id = await session._client.ask_permission(session.id, request.tool, options, request.meta)
    except (RequestError, ProtocolViolation, TimeoutError):
        return None
    chosen = next((option for option in options if option.option_id == option_id), None)
    if chosen is not None and chosen.kind in ("allow_always", "reject_always"):
        session._remembered[request.key] = chosen
    return chosen
