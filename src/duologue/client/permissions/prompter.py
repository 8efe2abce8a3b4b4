"""Asking the user: by a function, or through a stream of questions that a user interface reads.

Whatever goes wrong is a refusal: nobody to ask, an exception, an answer that is none, a user interface that has gone,
too many questions at once, or no answer in time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Self, TypeAlias

from duologue.client.permissions.request import REJECTING, PermissionDecision, PermissionRequest
from duologue.protocol.values import PermissionOption
from duologue.runtime.tasks import TaskScope

__all__ = ["Handler", "PermissionPrompter", "PermissionRequestStream", "refusal"]

Handler: TypeAlias = Callable[[PermissionRequest], Awaitable[object]]
"""Answers a question: with `True`, `False`, `"allow"`, `"reject"`, one of its options, or by one of its methods."""

STUCK_SECONDS = 1.0
"""For a function that is no longer needed to notice that."""

_log = logging.getLogger("duologue.client")


def refusal(question: PermissionRequest, by: str) -> PermissionDecision:
    """A no in the agent's own words; a cancelled question if it offers none."""
    return PermissionDecision(question.option_of_kind(*REJECTING), by)


class PermissionPrompter:
    """Whom to ask, and how long to wait.

    Args:
        on_request: Is awaited with each question.
        timeout: Seconds until a question without an answer is refused.
        at_once: How many questions `on_request` gets at the same time; the others wait in line.
        accept_delay: Seconds after a question was shown in which a yes does not count.
    """

    def __init__(self, on_request: Handler | None, *, timeout: float, at_once: int, accept_delay: float) -> None:
        self._on_ask = on_request
        self._timeout = timeout
        self._turnstile = asyncio.Semaphore(at_once)
        self._arm_after = accept_delay
        self._open: set[PermissionRequest] = set()
        self._streams: list[PermissionRequestStream] = []

    async def ask(self, question: PermissionRequest) -> PermissionDecision:
        """The answer of the user, or a refusal. If the wait is cancelled, so is the question."""
        handling = TaskScope()
        self._open.add(question)
        try:
            if self._on_ask is not None:
                handling.start(self._handle(question, self._on_ask))
            elif not any(stream.offer(question) for stream in self._streams):
                question.resolve(refusal(question, "nobody to ask"))
            await asyncio.wait([asyncio.wrap_future(question.future)], timeout=self._timeout)
            question.resolve(refusal(question, "no answer in time"))
        finally:
            question.resolve(PermissionDecision(None, "cancelled"))
            self._open.discard(question)
            await handling.cancel(STUCK_SECONDS)
        return question.future.result()

    def reject_all(self) -> None:
        """Say no to everything that is open."""
        for question in list(self._open):
            question.reject()

    def listen(self) -> PermissionRequestStream:
        """The questions from now on."""
        return PermissionRequestStream(self._streams, self._arm_after)

    async def _handle(self, question: PermissionRequest, on_request: Handler) -> None:
        try:
            async with self._turnstile:
                if question.is_open:
                    question.enable_after(self._arm_after)
                    _take(question, await on_request(question))
        except Exception:
            _log.exception("asking the user failed, which is a refusal")
        finally:
            question.resolve(refusal(question, "no answer"))


def _take(question: PermissionRequest, said: object) -> None:
    """What the function returned, if it says anything; it may have answered by a method of the question."""
    if said is True or (isinstance(said, str) and said == "allow"):
        question.allow()
    elif said is False or (isinstance(said, str) and said == "reject"):
        question.reject()
    elif isinstance(said, PermissionOption) and said in question.options:
        question.choose(said.option_id)


class PermissionRequestStream:
    """Questions as they come, for a user interface: `with permissions.questions() as questions: async for …`.

    Leaving the block says no to those that were taken and not answered: nobody would see them any more.
    """

    def __init__(self, streams: list[PermissionRequestStream], accept_delay: float) -> None:
        self._streams = streams
        self._arm_after = accept_delay
        self._given: set[PermissionRequest] = set()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[PermissionRequest] = asyncio.Queue()
        self._streams.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        self._streams.remove(self)
        for question in self._given:
            question.resolve(refusal(question, "the user interface is gone"))

    def offer(self, question: PermissionRequest) -> bool:
        """Show a question here; False if nobody is here any more."""
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, question)
        except RuntimeError:
            return False
        self._given = {each for each in self._given if each.is_open} | {question}
        return True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PermissionRequest:
        while True:
            question = await self._queue.get()
            if question.is_open:
                question.enable_after(self._arm_after)
                return question
