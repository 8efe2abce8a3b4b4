"""The compactions of a turn: each gets a new id, and none stays in progress after the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from duologue.conversation.updates import CompactionUpdate, Update


class OpenCompactions:
    """The compactions that are in progress in one turn.

    Args:
        finished: Ids of the compactions of the session that have ended.
    """

    def __init__(self, finished: set[str]) -> None:
        self._finished = finished
        self._open: set[str] = set()

    def note(self, update: CompactionUpdate) -> None:
        """Note the status of a compaction.

        Raises:
            ValueError: The compaction has ended before.
        """
        if update.compaction_id in self._finished:
            raise ValueError(f"the compaction {update.compaction_id!r} has ended; use a new id for a new one")
        if update.status == "in_progress":
            self._open.add(update.compaction_id)
        else:
            self._open.discard(update.compaction_id)
            self._finished.add(update.compaction_id)

    async def end(self, send: Callable[[Update], Awaitable[None]]) -> None:
        """Report compactions that are still in progress at the end of the turn as failed or cancelled."""
        task = asyncio.current_task()
        status = "cancelled" if task is not None and task.cancelling() else "failed"
        for compaction_id in sorted(self._open):
            await send(CompactionUpdate(compaction_id=compaction_id, status=status))
