"""One event stream of a server: of a whole connection, or of one session in it.

Where the server lets us return, a stream that breaks is opened again behind the last event that arrived; every event
comes once and in order, or there is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Protocol

import httpx2

from duologue.errors import ConnectionLost, ResumeFailed
from duologue.transports.remote.http_client import SESSION, HttpClient
from duologue.transports.remote.sse import Event, EventParser
from duologue.transports.resume import ResumeGrant, RetryPolicy

__all__ = ["EventListener", "EventStream"]

SILENCE_SECONDS = 60.0
"""A server that lets us return gives a sign of life every fifteen; four that are missing are one too many."""

QUIET_SECONDS = 0.05
LONGEST_QUIET_SECONDS = 1.0
"""How long the answer to `session/load` waits for the replay beside it, where nothing says how far that reaches."""

CONFLICT = "HTTP 409"
CONFLICT_SECONDS = 2.0
"""How long a server may need to see that its last reader, which was ours, has left a stream."""

BUSY = {409, 425, 429, 500, 502, 503, 504}
"""What may be better in a moment."""


class EventListener(Protocol):
    """Who takes what a stream brings."""

    def on_event(self, stream: EventStream, event: Event) -> None:
        """An event."""

    async def wait_for_capacity(self) -> None:
        """Until more can be taken."""


class EventStream:
    """An event stream.

    Args:
        requester: Who makes requests.
        headers: Which connection, and which session.
        terms: What the server grants to those who return.
        patience: How to return.
        max_bytes: Longest event that is taken.
        listener: Who takes what it brings.

    Attributes:
        session: Whose stream it is; None for that of the connection.
        count: The number of the last event that arrived, if the server numbers them.
        settled: Set once it is known whether the server opens it.
        refusal: Why the server did not.
        is_closed: The agent has closed its session.
        changed: Set with every event, and at the end.
    """

    def __init__(
        self,
        requester: HttpClient,
        headers: Mapping[str, str],
        terms: ResumeGrant | None,
        patience: RetryPolicy,
        max_bytes: int,
        listener: EventListener,
    ) -> None:
        self.session = headers.get(SESSION)
        self.count = 0
        self.settled = asyncio.Event()
        self.refusal: str | None = None
        self.is_closed = False
        self.changed = asyncio.Event()
        self._requester = requester
        self._headers = headers
        self._terms = terms
        self._patience = patience
        self._max_bytes = max_bytes
        self._listener = listener
        self._attempts = 0
        self._is_open = False
        self._is_over = False
        self._has_progressed = False
        self._retry: float | None = None
        self._scope = asyncio.timeout(None)

    def leave(self) -> None:
        """Stop reading: `follow` returns."""
        if self.settled.is_set() and not self._is_over:
            self._scope.reschedule(0)

    async def run(self) -> None:
        """Until a session's stream is over, or left; that of a connection never is.

        Raises:
            ResumeFailed: Something was missed that the server no longer has.
            ConnectionLost: The server is gone, or wants us gone.
            MessageTooLarge: An event is over the limit.
        """
        try:
            async with self._scope:
                await self._read_on()
        except TimeoutError:
            if not self._scope.expired():
                raise
        finally:
            self._is_over = True
            self.settled.set()
            self.changed.set()

    async def _read_on(self) -> None:
        """Read, and after a break behind it."""
        conflicts = self._patience.pauses_within(CONFLICT_SECONDS)
        pauses: Iterator[float] = iter(())
        while True:
            reason = await self._read()
            if self.refusal == CONFLICT and (pause := next(conflicts, None)) is not None:
                self.refusal = None
                await asyncio.sleep(pause)
                continue
            if self._terms is None or self.refusal is not None:
                if self.session is None:
                    raise ConnectionLost(f"the stream of the connection ended: {reason}")
                return
            if self._has_progressed or not self._attempts:
                pauses = self._patience.pauses_within(self._terms.grace_seconds)
            pause = next(pauses, None)
            if pause is None:
                raise ConnectionLost(f"an event stream broke and could not be taken up again: {reason}")
            await asyncio.sleep(max(pause, self._retry or 0))
            self._attempts += 1

    async def _read(self) -> str:
        """Read from where we are. Returns why there is no more."""
        self._has_progressed = False
        headers = dict(self._headers)
        if self._attempts:
            headers["Last-Event-ID"] = str(self.count)
        silence = SILENCE_SECONDS if self._terms is not None else None
        try:
            async with self._requester.events(headers, silence) as response:
                refusal = self._refusal(response)
                if refusal is None:
                    await self._read_events(response)
                return refusal or "the server ended it"
        except httpx2.HTTPError as error:
            return str(error) or type(error).__name__

    def _refusal(self, response: httpx2.Response) -> str | None:
        status = response.status_code
        if status == 200 and response.headers.get("content-type", "").startswith("text/event-stream"):
            self._is_open = True
            self.settled.set()
            return None
        told = f"HTTP {status}"
        if self.session is not None and not self._is_open and status in (404, 409):
            # Not this session, or not now: whoever asked for it is told, and the others live on.
            self.refusal = told
        elif status in (404, 410):
            kind = ConnectionLost if self._terms is None else ResumeFailed
            raise kind(f"the server does not have what comes next ({told}); load the session")
        elif status not in BUSY:
            raise ConnectionLost(f"the server refuses an event stream: {told}")
        return told

    async def _read_events(self, response: httpx2.Response) -> None:
        parser = EventParser(self._max_bytes)
        async for data in response.aiter_raw():
            self._has_progressed = True
            for event in parser.feed(data):
                if self._is_next(event):
                    self._listener.on_event(self, event)
            self._retry = parser.retry
            self.changed.set()
            await self._listener.wait_for_capacity()

    def _is_next(self, event: Event) -> bool:
        if self._terms is None or not event.id:
            return True
        number = int(event.id) if event.id.isdecimal() and len(event.id) < 20 else -1
        if 0 <= number <= self.count:
            return False  # it was sent again
        if number != self.count + 1:
            raise ResumeFailed(f"event {self.count + 1} of a stream is missing; load the session")
        self.count = number
        return True

    async def caught_up_with(self, event: Event) -> None:
        """Wait until what the agent said before this event of another stream has arrived here."""
        if event.after.isdecimal():
            await self._reached(int(event.after[:18]))
        else:
            await self._quiet(QUIET_SECONDS, LONGEST_QUIET_SECONDS)

    async def _reached(self, number: int) -> None:
        """Wait until this event has arrived, or none will any more."""
        while self.count < number and not self._is_over:
            self.changed.clear()
            await self.changed.wait()

    async def _quiet(self, seconds: float, longest: float) -> None:
        """Wait until nothing has come for so long; a busy stream is not waited for without end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                while not self._is_over:
                    self.changed.clear()
                    async with asyncio.timeout(seconds):
                        await self.changed.wait()
