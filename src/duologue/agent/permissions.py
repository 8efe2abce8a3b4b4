"""Asking the user, and remembering what "always" meant."""

from __future__ import annotations

import hashlib

import msgspec

from duologue.conversation.content import JsonObject
from duologue.conversation.updates import UNSET, FileChange, ToolCallUpdate
from duologue.protocol.values import PermissionOption

__all__ = ["RememberedAnswers", "_PendingPermission"]


class _PendingPermission:
    """A question: the tool call it is about, and what an "always" would cover.

    Without `remember_as` that is all the user was shown: kind, title, name, input, places, and content. Of a change to
    a file it is the file and what is done to it, and not the text.
    """

    def __init__(self, tool: ToolCallUpdate, remember_as: str | None, meta: JsonObject | None = None) -> None:
        self.tool = tool
        self.meta = meta
        self.key = f"as {remember_as}" if remember_as is not None else _digest(tool)


def _digest(tool: ToolCallUpdate) -> str:
    parts = tool.content if isinstance(tool.content, list) else []
    content = [_named(each) if isinstance(each, FileChange) else each for each in parts]
    given = {"title": tool.title, "kind": tool.kind, "name": tool.name, "locations": tool.locations}
    shown = {**given, "input": tool.raw_input, "content": content}
    known = {key: value for key, value in shown.items() if value is not UNSET}
    return hashlib.sha256(msgspec.json.encode(known, order="deterministic")).hexdigest()


def _named(change: FileChange) -> list[str | None]:
    kind = change.kind if change.kind in ("delete", "move") else "edit"
    return [kind, change.path, change.old_path]


class RememberedAnswers:
    """The "always" answers of one session, exactly as wide as the question was."""

    def __init__(self) -> None:
        self._answers: dict[str, PermissionOption] = {}

    def answer_to(self, asked: _PendingPermission) -> PermissionOption | None:
        return self._answers.get(asked.key)

    def note(self, asked: _PendingPermission, chosen: PermissionOption) -> None:
        if chosen.kind in ("allow_always", "reject_always"):
            self._answers[asked.key] = chosen
