"""What a session of version 2 is doing, as its client is to be told: a snapshot each time something begins or ends."""

from __future__ import annotations

from duologue.conversation.content import JsonObject
from duologue.conversation.updates import UNSET, StateUpdate
from duologue.conversation.work_state import BackgroundWork, Failure, TokenUsage

__all__ = ["StateTracker"]


class StateTracker:
    """The turns that run, the questions that wait for the user, and what goes on beside both.

    Attributes:
        turns: Prompts that were inserted and have not ended.
        questions: Requests to the user that have no answer.
        background: All that goes on in the background; `None` until something did.
    """

    def __init__(self) -> None:
        self.turns = 0
        self.questions = 0
        self.background: list[BackgroundWork] | None = None

    def state(self) -> StateUpdate:
        """What is going on now."""
        name = "requires_action" if self.questions else "running" if self.turns else "idle"
        return StateUpdate(state=name, background=self.background)

    def ended(
        self,
        stop_reason: str,
        *,
        error: Failure | None = None,
        usage: TokenUsage | None = None,
        meta: JsonObject | None = None,
    ) -> StateUpdate:
        """A turn is over: this is the only word that says so, whatever else still goes on."""
        return StateUpdate(
            state="idle",
            stop_reason=stop_reason,
            error=error,
            usage=usage,
            background=self.background,
            meta=UNSET if meta is None else meta,
        )
