"""The progress of a plan: each change sends the complete plan again, as the protocol requires."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from msgspec import structs

from duologue.conversation.updates import PlanEntry, PlanUpdate


class PlanProgress:
    """A plan that was sent, and the way to send its progress.

    Attributes:
        entries: The steps with their current status.

    Args:
        send: Sends an update.
        entries: The steps, as text or with status and priority.
        plan_id: Id of a named plan.
    """

    def __init__(
        self, send: Callable[[PlanUpdate], Awaitable[None]], entries: Iterable[str | PlanEntry], plan_id: str | None
    ) -> None:
        self.entries = [PlanEntry(entry) if isinstance(entry, str) else entry for entry in entries]
        self._send_update = send
        self._plan_id = plan_id

    async def send(self) -> None:
        """Send the complete plan."""
        await self._send_update(PlanUpdate(entries=list(self.entries), plan_id=self._plan_id))

    @asynccontextmanager
    async def step(self, content: str | None = None) -> AsyncGenerator[None]:
        """Show a step as in progress, and as completed after the block; after an exception it is pending again.

        Args:
            content: Text of the step; a new one is added to the plan. Default: the first that is pending.

        Raises:
            ValueError: No step is pending.
        """
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
