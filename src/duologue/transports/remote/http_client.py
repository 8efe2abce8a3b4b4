"""The HTTP client below `HttpTransport`: bounded responses, no redirects, and clear errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar, cast
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct, field

from duologue.errors import MessageTooLarge
from duologue.transports.remote.cookies import BoundedCookieJar
from duologue.transports.remote.http_connect import HttpConnector
from duologue.transports.remote.http_connection import HttpConnection, HttpError, HttpRequest
from duologue.transports.remote.url import RemoteEndpoint

E = TypeVar("E", bound=BaseException)

CONNECTION = "Acp-Connection-Id"
SESSION = "Acp-Session-Id"

SEND_SECONDS = 60.0
"""Without any progress while a request is sent, or until its response: a server answers 202 before the agent works."""

KEEPALIVE_SECONDS = 3.0
"""Servers close idle connections after five seconds; a request sent in that moment would be lost."""

MAX_REQUESTS = 100
"""Requests at the same time, each on a connection of its own; one more waits for a response to another."""

MAX_STREAMS = 1025
"""Event streams at the same time, each on a connection of its own: as many as a server allows, and one more."""

MAX_ERROR_BYTES = 8 * 1024
"""Bytes read of an error response."""


URL_CHARACTERS = "!#$%&'()*+,/:;=?@[]~"
"""Characters that a path and a query may contain unquoted, in addition to letters and digits."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class _Named(Struct):
    connection_id: str | None = field(name="connectionId", default=None)


class _InitializeResult(Struct):
    result: _Named


_decode_welcome = msgspec.json.Decoder(_InitializeResult).decode


class HttpResponse(NamedTuple):
    """A response that was read completely."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_good(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300

    @property
    def connection_id(self) -> str | None:
        """The connection that a response to `initialize` names: in a header, or in the result as in the proposal."""
        try:
            return self.headers.get(CONNECTION.lower()) or _decode_welcome(self.body).result.connection_id
        except msgspec.MsgspecError:
            return None


class HttpClient:
    """Send HTTP requests to one endpoint; cookies live as long as this object.

    Args:
        address: URL, headers and certificates of the server.
        max_bytes: Longest response that is read.

    Raises:
        ValueError: A header cannot be sent, or the environment names a proxy that cannot be used.
    """

    def __init__(self, address: RemoteEndpoint, max_bytes: int) -> None:
        self._url = address.url
        self._max_bytes = max_bytes
        self._cookies = BoundedCookieJar()
        self._connector = HttpConnector(address)
        self._open: set[HttpConnection] = set()
        self._idle: list[HttpConnection] = []
        self._requests = asyncio.Semaphore(MAX_REQUESTS)
        self._streams = 0
        self._has_cookies = False
        self._loop = asyncio.get_running_loop()
        parts = urlsplit(address.url)
        path = quote(parts.path + (f"?{parts.query}" if parts.query else ""), safe=URL_CHARACTERS)
        names = {name.lower(): _checked(name, value) for name, value in address.headers.items()}
        self._scheme = parts.scheme
        self._authority = names.pop("host", self._connector.authority)
        proxy = self._connector.forwarder
        self._target = path if proxy is None else f"http://{self._connector.authority}{path}"
        # The size of compressed responses could not be limited while they arrive.
        defaults = {"user-agent": "duologue", "accept": "*/*", "accept-encoding": "identity"}
        self._headers = {**defaults, **names, **dict([] if proxy is None else proxy.headers)}

    async def request(
        self,
        method: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
        *,
        seconds: float | None = SEND_SECONDS,
    ) -> HttpResponse:
        """Send a request and read its response.

        Args:
            method: The HTTP method.
            headers: In addition to those that every request has.
            content: The body.
            seconds: How long the server may be silent; `None` is unlimited.

        Raises:
            HttpError: The request failed.
            MessageTooLarge: The response exceeds the limit.
        """
        await self._acquire()
        try:
            connection = await self._send(method, headers, content, seconds)
            try:
                return HttpResponse(connection.status, connection.headers, await self._body(connection))
            finally:
                self._release(connection)
        finally:
            self._requests.release()

    async def _acquire(self) -> None:
        """Wait until another request may be sent."""
        try:
            async with asyncio.timeout(SEND_SECONDS if self._requests.locked() else None):
                await self._requests.acquire()
        except TimeoutError:
            reason = f"{MAX_REQUESTS} requests wait for their responses; none came within {SEND_SECONDS:g} s"
            raise HttpError(reason) from None

    @asynccontextmanager
    async def events(self, headers: Mapping[str, str], seconds: float | None) -> AsyncGenerator[HttpConnection]:
        """Open an event stream for the duration of the block.

        Raises:
            HttpError: The request failed.
        """
        wanted = {"accept": "text/event-stream", "cache-control": "no-store", **headers}
        if self._streams >= MAX_STREAMS:
            raise HttpError(f"{MAX_STREAMS} event streams are open, which is the limit; close sessions first")
        self._streams += 1
        try:
            connection = await self._send("GET", wanted, None, seconds)
            try:
                yield connection
            finally:
                self._release(connection)
        finally:
            self._streams -= 1

    async def _send(
        self, method: str, headers: Mapping[str, str], content: bytes | None, seconds: float | None
    ) -> HttpConnection:
        if not all(is_header_value(value) for value in headers.values()):
            raise HttpError("a header has characters that cannot be sent")
        named = {**self._headers, **headers}
        if self._has_cookies and "cookie" not in named and (cookies := self._cookies.header_for(self._url)):
            named["cookie"] = cookies
        request = HttpRequest(method, self._scheme, self._authority, self._target, named.items(), content)
        idle = self._idle_connection()
        connection = idle or await self._new_connection()
        try:
            await self._try(connection, request, seconds)
        except HttpError:
            # The server may have closed an idle connection in this moment; only a GET may be sent twice.
            if idle is None or idle.has_answered or not idle.closed.is_set() or method != "GET":
                raise
            connection = await self._new_connection()
            await self._try(connection, request, seconds)
        if connection.cookies:
            self._cookies.store(self._url, connection.cookies)
            self._has_cookies = True
        return connection

    async def _new_connection(self) -> HttpConnection:
        connection = await self._connector.connect()
        self._open = {each for each in self._open if not each.closed.is_set()} | {connection}
        return connection

    async def _try(self, connection: HttpConnection, request: HttpRequest, seconds: float | None) -> None:
        try:
            await connection.send(request, seconds)
        except BaseException:
            self._release(connection)
            raise

    def _idle_connection(self) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and self._loop.time() - connection.idle_since < KEEPALIVE_SECONDS:
                return connection
            connection.transport.abort()
        return None

    def _release(self, connection: HttpConnection) -> None:
        """Keep a connection for the next request, if its response was read."""
        if connection.is_reusable:
            self._idle.append(connection)
        else:
            connection.transport.abort()

    async def _body(self, connection: HttpConnection) -> bytes:
        is_good = 200 <= connection.status < 300
        limit = self._max_bytes if is_good else MAX_ERROR_BYTES
        body = bytearray()
        while data := await connection.read():
            body += data
            if len(body) > limit:
                if is_good:
                    raise MessageTooLarge(f"a response exceeds the limit of {limit} bytes")
                return bytes(body[:limit])
        return bytes(body)

    async def aclose(self) -> None:
        """Close all connections and drop all cookies."""
        for connection in list(self._open):
            await connection.aclose()
        self._open.clear()
        self._cookies.clear()


def is_header_value(text: str) -> bool:
    """Return whether a text, such as an id that the server chose, can be the value of a header."""
    return text.isascii() and text.isprintable()


def _checked(name: str, value: str) -> str:
    if not _HEADER_NAME.fullmatch(name) or any(character in value for character in "\r\n\0"):
        raise ValueError(f"{name!r} is no header that can be sent")
    return value


def first_error(group: BaseExceptionGroup[E]) -> E:
    """Return the first error of a group: it caused the others."""
    while isinstance(error := group.exceptions[0], BaseExceptionGroup):
        group = cast("BaseExceptionGroup[E]", error)
    return error
