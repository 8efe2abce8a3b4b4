"""The server of the inspector page: the page itself, and what it reads about the recordings of a directory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import Raw, Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from duologue.inspector.diff_rows import RecordingDiff, diff_of
from duologue.inspector.export import info_of
from duologue.inspector.page import page_end, page_start, policy
from duologue.inspector.recording_folder import RecordingFolder
from duologue.inspector.recording_index import PAGE_FRAMES, RecordingIndex
from duologue.transports.server.auth import AccessControl, RequestRejected
from duologue.transports.server.limits import Limits
from duologue.transports.server.protected_app import AccessLogEntry, ProtectedApp, allow, path_of

_T = TypeVar("_T")

MAX_OPEN = 3
"""Recordings whose rows are in memory: the one that is shown, and two that are compared."""
MAX_WAIT_SECONDS = 20.0
"""For new frames; then the page asks again."""
MAX_WAITS = 16
"""Requests that wait for new frames; one more is answered with 503."""
FOLLOW_SECONDS = 0.2
"""Pause before a growing file is read again."""
MAX_TEXT_CHARS = 1000
"""Length of a text to search for."""

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

Answer = Callable[["Query"], Any]


class Query:
    """The parameters of a request.

    Args:
        scope: The request.
    """

    def __init__(self, scope: Scope) -> None:
        try:
            query: str = scope.get("query_string", b"").decode("ascii")
            self._values = parse_qs(query, keep_blank_values=True, errors="strict", max_num_fields=10)
        except ValueError:
            raise RequestRejected(400, "the query is not valid") from None

    def text(self, name: str, most: int = 4096) -> str:
        """Return a parameter.

        Raises:
            RequestRejected: It is missing, repeated or too long.
        """
        values = self._values.get(name, [])
        if len(values) != 1 or len(values[0]) > most:
            raise RequestRejected(400, f"one parameter `{name}` of at most {most} characters is expected")
        return values[0]

    def number(self, name: str, default: int | None = None) -> int:
        """Return a parameter that is a number from 0 on.

        Raises:
            RequestRejected: It is something else, or missing without a default.
        """
        if default is not None and name not in self._values:
            return default
        text = self.text(name, 12)
        if not (text.isascii() and text.isdigit()):
            raise RequestRejected(400, f"the parameter `{name}` must be a number from 0 on")
        return int(text)


class _Opened(Struct):
    index: RecordingIndex
    file: int


class InspectorApp(ProtectedApp):
    """An ASGI application: `/` is the page, without a token and without data; `/api/…` needs the token.

    Args:
        folder: The recordings.
        access: Authenticates each request.
        limits: The limits of the server.
    """

    def __init__(self, folder: RecordingFolder, access: AccessControl, limits: Limits) -> None:
        super().__init__(access, limits)
        self._folder = folder
        self._opened: OrderedDict[str, _Opened] = OrderedDict()
        self._lock = asyncio.Lock()
        self._is_stopping = asyncio.Event()
        self._waits = 0
        self._answers: dict[str, Answer] = {
            "/api/recordings": self._recordings,
            "/api/rows": self._rows,
            "/api/content": self._content,
            "/api/search": self._search,
            "/api/statistics": self._statistics,
            "/api/conversation": self._items,
            "/api/diff": self._diff,
        }

    async def drain(self, seconds: float) -> None:
        self._is_stopping.set()

    async def aclose(self) -> None:
        async with self._lock:
            while self._opened:
                self._opened.popitem()[1].index.__exit__()

    async def answer(self, scope: Scope, receive: Receive, send: Send, entry: AccessLogEntry) -> None:
        path, send = path_of(scope), entry.watch(send)
        self.access.check_host_and_origin(scope)
        if scope["type"] != "http":
            raise RequestRejected(404, "not found")
        if path == "/":
            allow(scope, "GET")
            page = page_start(is_served=True) + page_end()
            headers = {"Content-Security-Policy": f"{policy(is_served=True)}; frame-ancestors 'none'"}
            await Response(page, 200, HEADERS | headers, "text/html")(scope, receive, send)
            return
        entry.caller = (await self.access.authenticate(scope)).name
        answer = self._answers.get(path)
        if answer is None:
            raise RequestRejected(404, "not found")
        allow(scope, "GET")
        try:
            found = await answer(Query(scope))
        except FileNotFoundError:
            raise RequestRejected(404, "no such recording") from None
        except (OSError, ValueError) as error:
            raise RequestRejected(422, f"the recording cannot be read: {error}") from None
        await Response(msgspec.json.encode(found), 200, HEADERS, "application/json")(scope, receive, send)

    async def _use(self, name: str, use: Callable[[RecordingIndex], _T]) -> _T:
        """Call a function with an open recording, in a thread, one at a time."""
        async with self._lock:
            return await asyncio.to_thread(lambda: use(self._index(name)))

    def _index(self, name: str) -> RecordingIndex:
        """Return an open recording; a file that was replaced or cut is read anew."""
        opened = self._opened.pop(name, None)
        if opened is not None and not self._is_current(name, opened):
            opened.index.__exit__()
            opened = None
        if opened is None:
            while len(self._opened) >= MAX_OPEN:
                self._opened.popitem(last=False)[1].index.__exit__()
            opened = _Opened(self._folder.open(name), self._folder.status(name).st_ino)
        self._opened[name] = opened
        return opened.index

    def _is_current(self, name: str, opened: _Opened) -> bool:
        try:
            status = self._folder.status(name)
        except OSError:
            return False
        return status.st_ino == opened.file and status.st_size >= opened.index.position

    async def _recordings(self, query: Query) -> object:
        return {"recordings": await asyncio.to_thread(self._folder.entries)}

    async def _rows(self, query: Query) -> object:
        name, start = query.text("recording"), query.number("start")
        seconds = min(float(query.number("wait", 0)), MAX_WAIT_SECONDS)

        def read(index: RecordingIndex) -> dict[str, Any]:
            rows = [Raw(row) for row in index.rows(start)]
            return {"rows": rows, "is_end": len(rows) < PAGE_FRAMES, "info": info_of(name, index)}

        page = await self._use(name, read)
        if page["rows"] or not seconds:
            return page
        if self._waits >= MAX_WAITS:
            raise RequestRejected(503, "too many requests wait for new frames", {"Retry-After": "5"})
        self._waits += 1
        try:
            end = asyncio.get_running_loop().time() + seconds
            while not page["rows"] and not self._is_stopping.is_set() and asyncio.get_running_loop().time() < end:
                await self._pause()
                page = await self._use(name, read)
        finally:
            self._waits -= 1
        return page

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._is_stopping.wait(), FOLLOW_SECONDS)
        except TimeoutError:
            pass

    async def _content(self, query: Query) -> object:
        number = query.number("number")
        return {"content": await self._use(query.text("recording"), lambda index: index.content(number))}

    async def _search(self, query: Query) -> object:
        text, first = query.text("text", MAX_TEXT_CHARS), query.number("first", 1)
        numbers, following = await self._use(query.text("recording"), lambda index: index.search(text, first))
        return {"numbers": numbers, "next": following}

    async def _statistics(self, query: Query) -> object:
        return await self._use(query.text("recording"), lambda index: index.statistics())

    async def _items(self, query: Query) -> object:
        start = query.number("start")
        items = await self._use(query.text("recording"), lambda index: index.items(start))
        return {"items": [Raw(item) for item in items]}

    async def _diff(self, query: Query) -> object:
        names = query.text("first"), query.text("second")

        def compare() -> RecordingDiff:
            with self._folder.read(names[0]) as first, self._folder.read(names[1]) as second:
                return diff_of(first, second)

        async with self._lock:
            return await asyncio.to_thread(compare)
