"""Verify tokens, and slow down guessing from one address without delaying other callers.

After ten wrong tokens in a minute, further checks for that address run one after the other, one per second. The address
is not blocked: a user behind the same proxy or on the same machine is still accepted. A token that was accepted within
the last hour is never delayed, so a client that worked before keeps working while another process guesses.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from duologue.transports.server.limits import Limits

Authenticate: TypeAlias = Callable[[str], "str | None | Awaitable[str | None]"]
"""From a token to the name of its caller; `None` for a token that is wrong or no longer valid."""

MAX_ADDRESSES = 10_000
"""Addresses whose failures are remembered; the oldest are forgotten."""

MAX_ACCEPTED = 10_000
"""Accepted tokens that are remembered; the oldest are forgotten."""

ACCEPTED_SECONDS = 3600.0
FAILURE_SECONDS = 60.0


class TooManyFailedAttempts(Exception):
    """Too many checks wait for this address."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many wrong tokens from this address; try again in {seconds} s")
        self.seconds = seconds


def single_token(token: str, caller: str = "owner") -> Authenticate:
    """Accept one token, for one caller."""
    expected = token.encode()

    def check(given: str) -> str | None:
        # Takes as long for a wrong token as for the right one.
        return caller if hmac.compare_digest(given.encode(), expected) else None

    return check


class TokenVerifier:
    """Call `authenticate` for each token, more slowly for an address with many failures.

    Args:
        authenticate: Called for each request; it may be a coroutine function.
        limits: How many failures are allowed, and how many checks run and wait.
        clock: The time in seconds.
    """

    def __init__(self, authenticate: Authenticate, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._authenticate = authenticate
        self._limits = limits
        self._clock = clock
        self._addresses: OrderedDict[str, ClientAddress] = OrderedDict()
        self._accepted: OrderedDict[bytes, float] = OrderedDict()
        """Until when a token is not delayed, by its digest; tokens themselves are not stored."""
        self._key = secrets.token_bytes(32)

    async def caller_of(self, token: str, address: str) -> str | None:
        """Return the caller that a token belongs to; `None` if it is wrong.

        Raises:
            TooManyFailedAttempts: The token was not checked.
        """
        digest = hashlib.blake2b(token.encode(), key=self._key).digest()
        if self._accepted.get(digest, 0.0) > self._clock():
            return self._remember(digest, await self._check(token))
        state = self._address(address)
        async with state.slot():
            caller = await self._check(token)
        if caller is None:
            state.failures.append(self._clock())
        return self._remember(digest, caller)

    async def _check(self, token: str) -> str | None:
        found = self._authenticate(token)
        return await found if inspect.isawaitable(found) else found

    def _remember(self, digest: bytes, caller: str | None) -> str | None:
        self._accepted.pop(digest, None)
        if caller is not None:
            self._accepted[digest] = self._clock() + ACCEPTED_SECONDS
            if len(self._accepted) > MAX_ACCEPTED:
                self._accepted.popitem(last=False)
        return caller

    def _address(self, address: str) -> ClientAddress:
        state = self._addresses.get(address)
        if state is None:
            state = self._addresses[address] = ClientAddress(self._limits, self._clock)
            if len(self._addresses) > MAX_ADDRESSES:
                self._addresses.popitem(last=False)
        self._addresses.move_to_end(address)
        return state


class ClientAddress:
    """The checks of one address: those that run, and those that wait in order of arrival.

    Attributes:
        failures: When the latest wrong tokens came.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self.failures: deque[float] = deque()
        self._limits = limits
        self._clock = clock
        self._order = asyncio.Lock()
        self._slots = asyncio.Semaphore(limits.checks_at_once)
        self._running = 0
        self._waiting = 0
        self._next_start = 0.0

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None]:
        """Wait until a check may run, and count it while it does.

        Raises:
            TooManyFailedAttempts: Too many checks wait already.
        """
        must_wait = self._order.locked() or self._slots.locked() or self._seconds_to_wait() > 0
        if must_wait and self._waiting >= self._limits.checks_waiting:
            raise TooManyFailedAttempts(round(self._waiting * self._limits.check_seconds) + 1)
        self._waiting += 1
        try:
            async with self._order:
                await self._slots.acquire()
                await self._pause()
        finally:
            self._waiting -= 1
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._slots.release()

    async def _pause(self) -> None:
        try:
            if (seconds := self._seconds_to_wait()) > 0:
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self._slots.release()
            raise
        self._next_start = self._clock() + self._limits.check_seconds

    def _seconds_to_wait(self) -> float:
        """Return the delay of the next check; running checks count as failures, because they may fail."""
        now = self._clock()
        while self.failures and self.failures[0] <= now - FAILURE_SECONDS:
            self.failures.popleft()
        is_free = len(self.failures) + self._running < self._limits.failures_per_minute
        return 0.0 if is_free else max(0.0, self._next_start - now)
