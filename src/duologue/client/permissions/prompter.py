"""Asking the user: by a function, or through a stream of requests that a user interface reads.

Every failure is a rejection: no user to ask, an exception, an invalid result, a user interface that was closed, too
many requests at once, or no decision in time.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import Self, TypeAlias
from weakref import WeakValueDictionary

from duologue.client.permissions.request import REJECTING, PermissionDecision, PermissionRequest
from duologue.protocol.values import PermissionOption
from duologue.runtime.tasks import TaskScope
from duologue.sanitize import shorten

Handler: TypeAlias = Callable[[PermissionRequest], object]
"""Decides a request: returns `True`, `False`, `"allow"`, `"reject"` or an option, or calls a method of the request.

A plain function is called in a thread, so that it may block; a coroutine function in the event loop.
"""

CANCEL_SECONDS = 1.0
"""Time for a function whose result is no longer needed to end."""

_log = logging.getLogger("duologue.client")


def rejection(request: PermissionRequest, by: str) -> PermissionDecision:
    """Return a rejection by an option that the agent offers; a cancelled request if it offers none."""
    return PermissionDecision(request.option_of_kind(*REJECTING), by)


class PermissionPrompter:
    """Asks the user, with a timeout.

    Args:
        on_request: Called with each request.
        timeout: Seconds after a request was shown until it is rejected without a decision.
        max_concurrent: Number of requests of one session that `on_request` receives at the same time.
        accept_delay: Seconds after a request was shown in which allowing it has no effect.
    """

    def __init__(self, on_request: Handler | None, *, timeout: float, max_concurrent: int, accept_delay: float) -> None:
        if on_request is not None and not callable(on_request):
            raise TypeError(f"`on_request` must be a function that takes a `PermissionRequest`, not {on_request!r}")
        self._on_request = on_request
        self._timeout = timeout
        self._max_concurrent = max_concurrent
        self._slots = WeakValueDictionary[str, asyncio.Semaphore]()
        self._accept_delay = accept_delay
        self._pending: set[PermissionRequest] = set()
        self._streams: list[PermissionRequestStream] = []

    def for_agent(self) -> Self:
        """Return the same for one more agent: two agents may use the same ids for their sessions."""
        other = copy.copy(self)
        other._slots = WeakValueDictionary[str, asyncio.Semaphore]()
        return other

    async def ask(self, request: PermissionRequest) -> PermissionDecision:
        """Return the user's decision, or a rejection. If this wait is cancelled, so is the request."""
        self._pending.add(request)
        try:
            if self._on_request is not None:
                async with self._slot(request.session_id):
                    await self._call(request, self._on_request)
            elif any(stream.offer(request) for stream in self._streams):
                await self._wait(request)
            request.resolve(rejection(request, "no user to ask"))
        finally:
            request.resolve(PermissionDecision(None, "cancelled"))
            self._pending.discard(request)
        return request._future.result()

    def _slot(self, session_id: str) -> asyncio.Semaphore:
        """Return what limits the requests of a session that are shown at the same time; one session blocks no other."""
        slot = self._slots.get(session_id) or asyncio.Semaphore(self._max_concurrent)
        self._slots[session_id] = slot
        return slot

    async def _call(self, request: PermissionRequest, on_request: Handler) -> None:
        tasks = TaskScope()
        try:
            if request.is_open:
                request.enable_after(self._accept_delay)
                tasks.start(self._handle(request, on_request))
                await self._wait(request)
        finally:
            request.resolve(PermissionDecision(None, "cancelled"))
            await tasks.cancel(CANCEL_SECONDS)

    async def _wait(self, request: PermissionRequest) -> None:
        """Wait for the decision; reject a request that has none this long after it was shown."""
        future = asyncio.wrap_future(request._future)
        while request.is_open and (left := request._shown_at + self._timeout - time.monotonic()) > 0:
            await asyncio.wait([future], timeout=left)
        request.resolve(rejection(request, "no answer in time"))

    def reject_all(self) -> None:
        """Reject every pending request."""
        for request in list(self._pending):
            request.reject()

    def listen(self) -> PermissionRequestStream:
        """Return a stream of the requests from now on."""
        return PermissionRequestStream(self._streams, self._accept_delay)

    async def _handle(self, request: PermissionRequest, on_request: Handler) -> None:
        flaw = ""
        try:
            result = await _result_of(on_request, request)
            if not _apply(request, result) and result is not None and request.is_open:
                flaw = f"returned {shorten(repr(result), 80)}"
        except Exception as error:
            _log.exception("the function that decides permission requests failed, so the request is rejected")
            flaw = f"failed with {type(error).__name__}: {shorten(str(error), 80)}" if request.is_open else ""
        finally:
            request.resolve(rejection(request, "no answer"))
        if flaw:
            _warn(on_request, flaw)


async def _result_of(on_request: Handler, request: PermissionRequest) -> object:
    """Call the function; a plain one in a thread, which is not waited for when the program ends: it may block."""
    if inspect.iscoroutinefunction(on_request) or inspect.iscoroutinefunction(type(on_request).__call__):
        result = on_request(request)
    else:
        result = await asyncio.wrap_future(_call_in_thread(on_request, request))
    return await result if inspect.isawaitable(result) else result


def _call_in_thread(on_request: Handler, request: PermissionRequest) -> Future[object]:
    future: Future[object] = Future()
    context = copy_context()

    def run() -> None:
        with suppress(InvalidStateError):  # the request was decided or cancelled meanwhile
            try:
                future.set_result(context.run(on_request, request))
            except BaseException as error:
                future.set_exception(error)

    Thread(target=run, name="duologue-permission", daemon=True).start()
    return future


def _warn(on_request: Handler, flaw: str) -> None:
    """Warn about a request that was rejected because the function did not decide it."""
    name = getattr(on_request, "__qualname__", type(on_request).__qualname__)
    code = getattr(on_request, "__code__", _warn.__code__)
    message = (
        f"`on_request` {name} {flaw}, so the request was rejected; "
        "call `request.allow()` or `request.reject()` in it, or return True or False"
    )
    warnings.warn_explicit(message, RuntimeWarning, code.co_filename, code.co_firstlineno)


def _apply(request: PermissionRequest, result: object) -> bool:
    """Apply what the function returned and return True, or False for a value without a meaning.

    The function may also have decided by a method of the request.
    """
    if result is True or (isinstance(result, str) and result == "allow"):
        request.allow()
    elif result is False or (isinstance(result, str) and result == "reject"):
        request.reject()
    elif isinstance(result, PermissionOption) and result in request.options:
        request.choose(result.option_id)
    else:
        return False
    return True


class PermissionRequestStream:
    """Requests for a user interface: `with permissions.requests() as requests: async for request in requests: …`.

    Leaving the block rejects the requests that were taken and not decided, because they are no longer shown.
    """

    def __init__(self, streams: list[PermissionRequestStream], accept_delay: float) -> None:
        self._streams = streams
        self._accept_delay = accept_delay
        self._taken: set[PermissionRequest] = set()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[PermissionRequest] = asyncio.Queue()
        self._streams.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        self._streams.remove(self)
        for request in self._taken:
            request.resolve(rejection(request, "the user interface is gone"))

    def offer(self, request: PermissionRequest) -> bool:
        """Queue a request here; return False if the event loop of the reader is closed."""
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, request)
        except RuntimeError:
            return False
        self._taken = {each for each in self._taken if each.is_open} | {request}
        return True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PermissionRequest:
        while True:
            request = await self._queue.get()
            if request.is_open:
                request.enable_after(self._accept_delay)
                return request
