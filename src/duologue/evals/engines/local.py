"""The engine of this process: agents are processes of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from duologue.evals.engines.execution import TaskExecution
from duologue.evals.engines.interface import Engine
from duologue.evals.engines.task import Report, Task, failure
from duologue.evals.exceptions import EvalError
from duologue.runtime.tasks import TaskScope

END_SECONDS = 300.0
"""Time for cancelled trials to end their agents and to remove their directories."""


class LocalEngine(Engine):
    """Carries out tasks in this process.

    Args:
        carry_out: What carries out a task. Default: run the agent.
    """

    name = "local"
    is_local = True

    def __init__(self, carry_out: Callable[[Task], Awaitable[Report]] | None = None) -> None:
        self._carry_out = carry_out or TaskExecution().run
        self._reports: asyncio.Queue[Report | BaseException] = asyncio.Queue()
        self._running: dict[str, asyncio.Task[None]] = {}

    @property
    def slots(self) -> int:
        """One, unless the user says otherwise."""
        return 1

    async def open(self) -> None:
        """Take tasks from now on."""
        self._scope = TaskScope()

    async def close(self) -> None:
        """Cancel what runs and wait for its end."""
        await self._scope.cancel(END_SECONDS)

    def submit(self, task: Task) -> None:
        """Start a task."""
        self._running[task.name] = self._scope.start(self._run(task))

    async def _run(self, task: Task) -> None:
        try:
            self._reports.put_nowait(await self._carry_out(task))
        except EvalError as error:
            self._reports.put_nowait(failure(task, type(error).__name__, str(error)))
        except Exception as error:
            self._reports.put_nowait(error)
        finally:
            self._running.pop(task.name, None)

    async def results(self) -> AsyncIterator[Report]:
        """Yield reports as they come; an unexpected error of a task is raised here."""
        while True:
            report = await self._reports.get()
            if isinstance(report, BaseException):
                raise report
            yield report

    def cancel(self, task: Task) -> None:
        """Cancel a task that runs."""
        if (running := self._running.get(task.name)) is not None:
            running.cancel()
