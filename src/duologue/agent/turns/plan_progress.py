"""The progress of a plan: each change sends the complete plan again, as the protocol requires."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import structs

from duologue.agent.diagnostics.checks import check_step
from duologue.agent.diagnostics.misused_results import TurnBlock
from duologue.conversation.updates import PlanEntry, PlanUpdate

if TYPE_CHECKING:
    from duologue.agent.turn import Turn


class PlanProgress:
    """A plan that was sent, and the way to send its progress.

    Attributes:
        entries: The steps with their current status.

    Args:
        turn: The turn that shows the plan.
        entries: The steps, as text or with status and priority.
        plan_id: Id of a named plan.
    """

    def __init__(self, turn: Turn[Any], entries: Iterable[str | PlanEntry], plan_id: str | None) -> None:
        self.entries = [_as_step(entry) for entry in entries]
        self._turn = turn
        self._plan_id = plan_id

    async def send(self) -> None:
        """Send the complete plan."""
        await self._turn.update(PlanUpdate(entries=list(self.entries), plan_id=self._plan_id))

    def step(self, content: str | None = None) -> AbstractAsyncContextManager[None]:
        """Show a step as in progress inside `async with`, as completed after it, as pending after an exception.

        Args:
            content: Text of the step; a new one is added to the plan. Default: the first that is pending.

        Raises:
            ValueError: No step is pending.
        """
        return TurnBlock(self._turn, "plan.step", self._step(content))

    @asynccontextmanager
    async def _step(self, content: str | None) -> AsyncGenerator[None]:
        index = self._index(content)
        await self._set(index, "in_progress")
        try:
            yield
        except Exception:
            await self._set(index, "pending")
            raise
        await self._set(index, "completed")

    def _index(self, content: str | None) -> int:
        for index, entry in enumerate(self.entries):
            if entry.content == content or (content is None and entry.status == "pending"):
                return index
        if content is None:
            raise ValueError('no step of the plan is pending; name the step to add: `plan.step("Check the result")`')
        self.entries.append(PlanEntry(content))
        return len(self.entries) - 1

    async def _set(self, index: int, status: str) -> None:
        self.entries[index] = structs.replace(self.entries[index], status=status)
        await self.send()


def _as_step(entry: object) -> PlanEntry:
    if isinstance(entry, str):
        return PlanEntry(entry)
    if not isinstance(entry, PlanEntry):
        kind = type(entry).__name__
        fix = "; write `*` before it: `turn.plan(*steps)`" if isinstance(entry, list | tuple) else ""
        raise TypeError(f"a step of a plan must be a string or a `PlanEntry`, got {kind}{fix}")
    check_step(entry.status, entry.priority)
    return entry
