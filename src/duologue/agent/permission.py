"""Asking the user, and remembering what "always" meant."""

from __future__ import annotations

from duologue.conversation.content import JsonObject
from duologue.conversation.updates import ToolCallChanged
from duologue.dialects.terms import PermissionOption

__all__ = ["DEFAULT_OPTIONS", "PERMISSION_SECONDS", "Asked", "Remembered"]

PERMISSION_SECONDS = 600.0
"""How long a question waits for its answer: a meeting, not a night."""

DEFAULT_OPTIONS = [
    PermissionOption(option_id="allow_once", name="Allow once", kind="allow_once"),
    PermissionOption(option_id="allow_always", name="Always allow", kind="allow_always"),
    PermissionOption(option_id="reject_once", name="Reject", kind="reject_once"),
    PermissionOption(option_id="reject_always", name="Always reject", kind="reject_always"),
]


class Asked:
    """A question: the tool call it is about, and what an "always" would cover."""

    def __init__(self, tool: ToolCallChanged, remember_as: str | None, meta: JsonObject | None = None) -> None:
        self.tool = tool
        self.meta = meta
        self.key = remember_as if remember_as is not None else f"{tool.kind}: {tool.title}"


class Remembered:
    """The "always" answers of one session, exactly as wide as the question was."""

    def __init__(self) -> None:
        self._answers: dict[str, PermissionOption] = {}

    def answer_to(self, asked: Asked) -> PermissionOption | None:
        return self._answers.get(asked.key)

    def note(self, asked: Asked, chosen: PermissionOption) -> None:
        if chosen.kind in ("allow_always", "reject_always"):
            self._answers[asked.key] = chosen
