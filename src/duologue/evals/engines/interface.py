"""The interface of an engine: submit tasks, take their reports, cancel them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self, TypeAlias

from duologue.evals.engines.task import Report, Task
from duologue.evals.exceptions import EvalError

Notice: TypeAlias = Callable[[str], None]
"""Called with what a user should know of the engine, one line each."""


def _say_nothing(text: str) -> None:
    pass


class EngineError(EvalError):
    """The engine cannot be used, or cannot go on; the records of finished trials are kept."""


class Engine(ABC):
    """Carries out tasks, each at least once, and returns one report for each.

    Use it in an `async with` block: at its end what still runs is cancelled, and leaves no record.

    Attributes:
        name: What it is, for people and for the manifest of a run.
        is_local: It carries out tasks in this process.
        notice: Called with what a user should know.
    """

    name: str = ""
    is_local: bool = False
    notice: Notice = staticmethod(_say_nothing)

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many tasks it carries out at the same time, as far as it is known now."""

    @abstractmethod
    async def open(self) -> None:
        """Make it usable.

        Raises:
            EngineError: That is not possible.
        """

    @abstractmethod
    async def close(self) -> None:
        """Cancel what runs, and release everything."""

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Carry out a task; its report comes from `results`, also if it cannot be carried out."""

    @abstractmethod
    def results(self) -> AsyncIterator[Report]:
        """Yield reports in the order in which they come, without end.

        Raises:
            EngineError: The engine cannot go on.
        """

    @abstractmethod
    def cancel(self, task: Task) -> None:
        """Cancel a task; it leaves no record, and there is no report of it."""
