"""Asking the user: by a function, or through a stream of questions that a user interface reads.

Whatever goes wrong is a refusal: nobody to ask, an exception, an answer that is none, a user interface that has gone,
too many questions at once, or no answer in time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Self, TypeAlias

from duologue.client.questions import REJECTING, Answer, Question
from duologue.dialects.terms import PermissionOption
from duologue.runtime.tasks import TaskScope

__all__ = ["Asking", "Handler", "QuestionStream", "refusal"]

Handler: TypeAlias = Callable[[Question], Awaitable[object]]
"""Answers a question: with `True`, `False`, `"allow"`, `"reject"`, one of its options, or by one of its methods."""

STUCK_SECONDS = 1.0
"""For a function that is no longer needed to notice that."""

_log = logging.getLogger("duologue.client")


def refusal(question: Question, by: str) -> Answer:
    """A no in the agent's own words; a cancelled question if it offers none."""
    return Answer(question.option_of_kind(*REJECTING), by)


class Asking:
    """Whom to ask, and how long to wait.

    Args:
        on_ask: Is awaited with each question.
        timeout: Seconds until a question without an answer is refused.
        at_once: How many questions `on_ask` gets at the same time; the others wait in line.
        arm_after: Seconds after a question was shown in which a yes does not count.
    """

    def __init__(self, on_ask: Handler | None, *, timeout: float, at_once: int, arm_after: float) -> None:
        self._on_ask = on_ask
        self._timeout = timeout
        self._turnstile = asyncio.Semaphore(at_once)
        self._arm_after = arm_after
        self._open: set[Question] = set()
        self._streams: list[QuestionStream] = []

    async def ask(self, question: Question) -> Answer:
        """The answer of the user, or a refusal. If the wait is cancelled, so is the question."""
        handling = TaskScope()
        self._open.add(question)
        try:
            if self._on_ask is not None:
                handling.start(self._handle(question, self._on_ask))
            elif not any(stream.offer(question) for stream in self._streams):
                question.settle(refusal(question, "nobody to ask"))
            await asyncio.wait([asyncio.wrap_future(question.future)], timeout=self._timeout)
            question.settle(refusal(question, "no answer in time"))
        finally:
            question.settle(Answer(None, "cancelled"))
            self._open.discard(question)
            await handling.cancel(STUCK_SECONDS)
        return question.future.result()

    def reject_all(self) -> None:
        """Say no to everything that is open."""
        for question in list(self._open):
            question.reject()

    def listen(self) -> QuestionStream:
        """The questions from now on."""
        return QuestionStream(self._streams, self._arm_after)

    async def _handle(self, question: Question, on_ask: Handler) -> None:
        try:
            async with self._turnstile:
                if question.is_open:
                    question.arm(self._arm_after)
                    _take(question, await on_ask(question))
        except Exception:
            _log.exception("asking the user failed, which is a refusal")
        finally:
            question.settle(refusal(question, "no answer"))


def _take(question: Question, said: object) -> None:
    """What the function returned, if it says anything; it may have answered by a method of the question."""
    if said is True or (isinstance(said, str) and said == "allow"):
        question.allow()
    elif said is False or (isinstance(said, str) and said == "reject"):
        question.reject()
    elif isinstance(said, PermissionOption) and said in question.options:
        question.choose(said.option_id)


class QuestionStream:
    """Questions as they come, for a user interface: `with permissions.questions() as questions: async for …`.

    Leaving the block says no to those that were taken and not answered: nobody would see them any more.
    """

    def __init__(self, streams: list[QuestionStream], arm_after: float) -> None:
        self._streams = streams
        self._arm_after = arm_after
        self._given: set[Question] = set()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Question] = asyncio.Queue()
        self._streams.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        self._streams.remove(self)
        for question in self._given:
            question.settle(refusal(question, "the user interface is gone"))

    def offer(self, question: Question) -> bool:
        """Show a question here; False if nobody is here any more."""
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, question)
        except RuntimeError:
            return False
        self._given = {each for each in self._given if each.is_open} | {question}
        return True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Question:
        while True:
            question = await self._queue.get()
            if question.is_open:
                question.arm(self._arm_after)
                return question
