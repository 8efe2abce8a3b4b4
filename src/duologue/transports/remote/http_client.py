"""The HTTP client below `HttpTransport`: bounded responses, no redirects, and clear errors."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import NamedTuple, TypeVar, cast

import httpx2
import msgspec
from msgspec import Struct, field

from duologue.errors import MessageTooLarge
from duologue.transports.remote.cookies import BoundedCookieJar
from duologue.transports.remote.url import RemoteEndpoint

E = TypeVar("E", bound=BaseException)

CONNECTION = "Acp-Connection-Id"
SESSION = "Acp-Session-Id"

CONNECT_SECONDS = 10.0
"""For a server to accept a connection."""

SEND_SECONDS = 60.0
"""Without any progress while a request is sent, or until its response: a server answers 202 before the agent works."""

KEEPALIVE_SECONDS = 3.0
"""Servers close idle connections after five seconds; a request sent in that moment would be lost."""

MAX_ERROR_BYTES = 8 * 1024
"""Bytes read of an error response."""


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
            return self.headers.get(CONNECTION) or _decode_welcome(self.body).result.connection_id
        except msgspec.MsgspecError:
            return None


class HttpClient:
    """Send HTTP requests to one endpoint; cookies live as long as this object.

    Args:
        address: URL, headers and certificates of the server.
        max_bytes: Longest response that is read.
    """

    def __init__(self, address: RemoteEndpoint, max_bytes: int) -> None:
        self._url = address.url
        self._max_bytes = max_bytes
        self._cookies = BoundedCookieJar()
        # Experimental: used if its package is installed and the server offers it in TLS.
        speaks_http2 = address.is_secure and find_spec("h2") is not None
        self._client = self._open(address, speaks_http2)
        # HTTP/2 uses one connection for everything, on which a waiting event stream would block other requests.
        self._streams = self._open(address, speaks_http2) if speaks_http2 else self._client

    def _open(self, address: RemoteEndpoint, speaks_http2: bool) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            # The size of compressed responses could not be limited while they arrive.
            headers={**address.headers, "Accept-Encoding": "identity"},
            cookies=self._cookies,
            # Without TLS the certificates of the system, which are slow to read, are not needed.
            verify=address.tls() if address.is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            timeout=httpx2.Timeout(SEND_SECONDS, connect=CONNECT_SECONDS, pool=None),
            # Every session has an event stream that stays open.
            limits=httpx2.Limits(max_connections=None, keepalive_expiry=KEEPALIVE_SECONDS),
            follow_redirects=False,
            http2=speaks_http2,
        )

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
            httpx2.HTTPError: The request failed.
            MessageTooLarge: The response exceeds the limit.
        """
        timeout = httpx2.Timeout(SEND_SECONDS, connect=CONNECT_SECONDS, pool=None, read=seconds)
        async with self._client.stream(
            method, self._url, headers=dict(headers), content=content, timeout=timeout
        ) as response:
            return HttpResponse(response.status_code, response.headers, await self._body(response))

    @asynccontextmanager
    async def events(self, headers: Mapping[str, str], seconds: float | None) -> AsyncGenerator[httpx2.Response]:
        """Open an event stream for the duration of the block.

        Raises:
            httpx2.HTTPError: The request failed.
        """
        timeout = httpx2.Timeout(SEND_SECONDS, connect=CONNECT_SECONDS, pool=None, read=seconds)
        wanted = {"Accept": "text/event-stream", "Cache-Control": "no-store", **headers}
        async with self._streams.stream("GET", self._url, headers=wanted, timeout=timeout) as response:
            yield response

    async def _body(self, response: httpx2.Response) -> bytes:
        limit = self._max_bytes if response.is_success else MAX_ERROR_BYTES
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > limit:
                if response.is_success:
                    raise MessageTooLarge(f"a response exceeds the limit of {limit} bytes")
                return bytes(body[:limit])
        return bytes(body)

    async def aclose(self) -> None:
        """Close all connections and drop all cookies."""
        await self._client.aclose()
        await self._streams.aclose()
        self._cookies.clear()


def first_error(group: BaseExceptionGroup[E]) -> E:
    """Return the first error of a group: it caused the others."""
    while isinstance(error := group.exceptions[0], BaseExceptionGroup):
        group = cast("BaseExceptionGroup[E]", error)
    return error
