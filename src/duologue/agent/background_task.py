"""Background tasks of an agent: work that goes on between turns, and that the client sees and can stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from duologue.conversation.updates import UNSET, BackgroundTaskUpdate
from duologue.errors import ConnectionLost

if TYPE_CHECKING:
    from duologue.agent.session import Session

_log = logging.getLogger("duologue.agent")

STOP_SECONDS = 5.0
"""Seconds for a task to end after it was stopped; one that goes on is reported as not stopped."""


class BackgroundTaskHandle:
    """A background task; `session.run_in_background` starts it.

    Attributes:
        task_id: Its id on the wire.
        title: What it is, for a person.
        state: `running`, `completed`, `failed` or `stopped`.
    """

    def __init__(self, session: Session[Any], title: str) -> None:
        self.task_id = session.new_id("task")
        self.title = title
        self.state = "running"
        self._session = session
        self._task: asyncio.Task[None] | None = None

    async def _start(self, work: TaskWork, kind: str) -> Self:
        """Announce the task to a client that shows background tasks, and run the work."""
        self._session._background_tasks[self.task_id] = self
        self._task = self._session.tasks.start(self._run(work, kind))
        await asyncio.sleep(0)  # from here on the task is announced, and can be stopped
        return self

    async def progress(self, summary: str) -> None:
        """Show what the task has done so far."""
        await self._session.update(BackgroundTaskUpdate(task_id=self.task_id, summary=summary))

    async def stop(self) -> bool:
        """Cancel the work and wait for its end; return False if it had ended before, or goes on."""
        if self._task is None or self._task.done():
            return False
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=STOP_SECONDS)
        return self.state == "stopped"

    async def _run(self, work: TaskWork, kind: str) -> None:
        summary = None
        try:
            announced = BackgroundTaskUpdate(
                task_id=self.task_id, is_new=True, title=self.title, kind=kind, description=self.title, can_stop=True
            )
            await self._session.update(announced)
            summary = await work(self)
            self.state = "completed"
        except asyncio.CancelledError:
            self.state = "stopped"
            raise
        except ConnectionLost:
            self.state = "failed"  # there is no client to show it to
        except Exception as error:
            self.state, summary = "failed", type(error).__name__
            _log.exception("session %s: the background task %r failed", self._session.id, self.title)
        finally:
            self._session._background_tasks.pop(self.task_id, None)
            ended = BackgroundTaskUpdate(task_id=self.task_id, state=self.state, summary=summary or UNSET)
            with suppress(ConnectionLost):
                await self._session._send_final_update(ended)


TaskWork: TypeAlias = Callable[[BackgroundTaskHandle], Awaitable[str | None]]
"""The work of a background task; it may return a summary."""
