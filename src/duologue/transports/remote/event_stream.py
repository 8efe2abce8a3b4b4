"""One event stream of a server: of a whole connection, or of one session in it.

If the server supports resuming, a stream that breaks is opened again after the last event that arrived; every event is
delivered once and in order, or there is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Protocol

from duologue.errors import ConnectionLost, ResumeFailed
from duologue.transports.remote.http_client import SESSION, HttpClient
from duologue.transports.remote.http_connection import HttpConnection, HttpError
from duologue.transports.remote.sse import Event, EventParser
from duologue.transports.resume.protocol import ResumeGrant, RetryPolicy

SILENCE_SECONDS = 60.0
"""A server that supports resuming sends something every fifteen seconds; without it for a minute, it is gone."""

QUIET_SECONDS = 0.05
LONGEST_QUIET_SECONDS = 1.0
"""How long the response to `session/load` waits for the replay on another stream, if its length is not known."""

CONFLICT = "HTTP 409"
CONFLICT_SECONDS = 2.0
"""How long a server may need to notice that the previous reader has left a stream."""

BUSY = {409, 425, 429, 500, 502, 503, 504}
"""HTTP statuses after which another attempt makes sense."""


class EventListener(Protocol):
    """Receive the events of a stream."""

    def on_event(self, stream: EventStream, event: Event) -> None:
        """Process an event."""

    async def wait_for_capacity(self) -> None:
        """Wait until more events can be processed."""


class EventStream:
    """Read an event stream, and open it again when it breaks.

    Args:
        client: Makes the requests.
        headers: Name the connection and the session.
        grant: What the server grants for resuming; `None` if it does not support it.
        retry: How to reconnect.
        max_bytes: Longest event that is accepted.
        listener: Receives the events.

    Attributes:
        session: The session of the stream; `None` for that of the connection.
        count: The number of the last event that arrived, if the server numbers them.
        settled: Set once the server has opened or rejected the stream.
        rejection: Why the server rejected it.
        is_closed: The agent has closed the session.
        changed: Set with every event, and at the end.
    """

    def __init__(
        self,
        client: HttpClient,
        headers: Mapping[str, str],
        grant: ResumeGrant | None,
        retry: RetryPolicy,
        max_bytes: int,
        listener: EventListener,
    ) -> None:
        self.session = headers.get(SESSION)
        self.count = 0
        self.settled = asyncio.Event()
        self.rejection: str | None = None
        self.is_closed = False
        self.changed = asyncio.Event()
        self._client = client
        self._headers = headers
        self._grant = grant
        self._policy = retry
        self._max_bytes = max_bytes
        self._listener = listener
        self._attempts = 0
        self._is_open = False
        self._is_over = False
        self._has_progressed = False
        self._retry: float | None = None
        self._scope = asyncio.timeout(None)

    def leave(self) -> None:
        """Stop reading: `run` returns."""
        if self.settled.is_set() and not self._is_over:
            self._scope.reschedule(0)

    async def run(self) -> None:
        """Read until the stream of a session ends or `leave` is called; that of a connection never ends.

        Raises:
            ResumeFailed: The server no longer has an event that was missed.
            ConnectionLost: The server is gone or rejects the client.
            MessageTooLarge: An event exceeds the limit.
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
        """Read, and reconnect after a break."""
        conflicts = self._policy.pauses_within(CONFLICT_SECONDS)
        pauses: Iterator[float] = iter(())
        while True:
            reason = await self._read()
            if self.rejection == CONFLICT and (pause := next(conflicts, None)) is not None:
                self.rejection = None
                await asyncio.sleep(pause)
                continue
            if self._grant is None or self.rejection is not None:
                if self.session is None:
                    raise ConnectionLost(f"the stream of the connection ended: {reason}")
                return
            if self._has_progressed or not self._attempts:
                pauses = self._policy.pauses_within(self._grant.grace_seconds)
            pause = next(pauses, None)
            if pause is None:
                raise ConnectionLost(f"an event stream broke and could not be resumed: {reason}")
            await asyncio.sleep(max(pause, self._retry or 0))
            self._attempts += 1

    async def _read(self) -> str:
        """Read the events after the last one; return why the stream ended."""
        self._has_progressed = False
        headers = dict(self._headers)
        if self._attempts:
            headers["Last-Event-ID"] = str(self.count)
        silence = SILENCE_SECONDS if self._grant is not None else None
        try:
            async with self._client.events(headers, silence) as response:
                rejection = self._rejection(response)
                if rejection is None:
                    await self._read_events(response)
                return rejection or "the server ended it"
        except HttpError as error:
            return str(error) or type(error).__name__

    def _rejection(self, response: HttpConnection) -> str | None:
        status = response.status
        if status == 200 and response.headers.get("content-type", "").startswith("text/event-stream"):
            self._is_open = True
            self.settled.set()
            return None
        reason = f"HTTP {status}"
        if self.session is not None and not self._is_open and status in (404, 409):
            # Only this session fails; the other streams continue.
            self.rejection = reason
        elif status in (404, 410):
            kind = ConnectionLost if self._grant is None else ResumeFailed
            raise kind(f"the server no longer has the next event ({reason}); load the session")
        elif status not in BUSY:
            raise ConnectionLost(f"the server rejected an event stream: {reason}")
        return reason

    async def _read_events(self, response: HttpConnection) -> None:
        parser = EventParser(self._max_bytes)
        while data := await response.read():
            self._has_progressed = True
            for event in parser.feed(data):
                if self._is_next(event):
                    self._listener.on_event(self, event)
            self._retry = parser.retry
            self.changed.set()
            await self._listener.wait_for_capacity()

    def _is_next(self, event: Event) -> bool:
        if self._grant is None or not event.id:
            return True
        number = int(event.id) if event.id.isdecimal() and len(event.id) < 20 else -1
        if 0 <= number <= self.count:
            return False  # it was sent again
        if number != self.count + 1:
            raise ResumeFailed(f"event {self.count + 1} of a stream is missing; load the session")
        self.count = number
        return True

    async def caught_up_with(self, event: Event) -> None:
        """Wait until everything the agent sent before this event of another stream has arrived here."""
        if event.after.isdecimal():
            await self._reached(int(event.after[:18]))
        else:
            await self._quiet(QUIET_SECONDS, LONGEST_QUIET_SECONDS)

    async def _reached(self, number: int) -> None:
        """Wait until the event with this number has arrived, or the stream has ended."""
        while self.count < number and not self._is_over:
            self.changed.clear()
            await self.changed.wait()

    async def _quiet(self, seconds: float, longest: float) -> None:
        """Wait until no event has arrived for `seconds`, but never longer than `longest`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                while not self._is_over:
                    self.changed.clear()
                    async with asyncio.timeout(seconds):
                        await self.changed.wait()
