"""The waits of answers: pauses and holds that end with the server, and what a test waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from duologue.testing.models.request import ModelRequest, Outcome


class AnswerEnded(Exception):
    """An answer that cannot go on: the server stops, or it was held for too long. Its connection is dropped."""


class HoldExpired(AnswerEnded):
    """An answer that no test released in time."""


class AnswerControl:
    """Pauses and holds answers. Everything here runs in the event loop of the server.

    Args:
        hold_seconds: Longest time that an answer is held.
    """

    def __init__(self, hold_seconds: float) -> None:
        self.hold_seconds = hold_seconds
        self._stopped = asyncio.Event()
        self._changed = asyncio.Condition()
        self._held: dict[int, tuple[ModelRequest, asyncio.Event]] = {}

    async def pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            AnswerEnded: The server stops.
        """
        if seconds and not self._stopped.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), seconds)
        if self._stopped.is_set():
            raise AnswerEnded("the server stops")

    async def hang(self) -> None:
        """Wait for the longest time that an answer is held.

        Raises:
            AnswerEnded: Always.
        """
        await self.pause(self.hold_seconds)
        raise AnswerEnded(f"nothing ended the answer within {self.hold_seconds:g} s")

    async def hold(self, request: ModelRequest) -> None:
        """Wait until a test releases the answer.

        Raises:
            AnswerEnded: The server stops, or the test did not release it in time.
        """
        if self._stopped.is_set():
            raise AnswerEnded("the server stops")
        released = asyncio.Event()
        self._held[request.number] = (request, released)
        try:
            await self.notify()
            async with asyncio.timeout(self.hold_seconds):
                await released.wait()
        except TimeoutError:
            raise HoldExpired(f"the answer was held, and not released within {self.hold_seconds:g} s") from None
        finally:
            del self._held[request.number]
        if self._stopped.is_set():
            raise AnswerEnded("the server stops")

    async def finish(self, request: ModelRequest, outcome: Outcome) -> None:
        """Set the outcome of a request."""
        request.outcome = outcome
        await self.notify()

    async def wait_held(self, count: int, timeout: float) -> ModelRequest:
        """Wait until so many answers are held; return the request of the last one."""
        await self._wait(lambda: len(self._held) >= count, timeout, f"fewer than {count} answers were held")
        return list(self._held.values())[-1][0]

    async def wait_finished(self, request: ModelRequest, timeout: float) -> Outcome:
        """Wait until the answer to a request has ended; return its outcome."""
        await self._wait(lambda: request.outcome != "answering", timeout, f"request {request.number} did not end")
        return request.outcome

    async def wait_requests(self, requests: list[ModelRequest], count: int, timeout: float) -> None:
        """Wait until so many requests have arrived."""
        await self._wait(lambda: len(requests) >= count, timeout, f"fewer than {count} requests arrived")

    async def release(self) -> None:
        """Let the answers that are held go on.

        Raises:
            ValueError: There are none.
        """
        if not self._held:
            raise ValueError("no answer is held; `await server.held()` before `await server.release()`")
        for _, released in self._held.values():
            released.set()

    def stop(self) -> None:
        """End all pauses and holds."""
        self._stopped.set()
        for _, released in self._held.values():
            released.set()

    async def _wait(self, is_true: Callable[[], bool], timeout: float, failure: str) -> None:
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(is_true)
        except TimeoutError:
            raise TimeoutError(f"{failure} within {timeout:g} s") from None

    async def notify(self) -> None:
        """Wake what waits for a change."""
        async with self._changed:
            self._changed.notify_all()
