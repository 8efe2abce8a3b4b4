"""The HTTP client for a session's MCP servers, with checked IP addresses and bounded responses.

Redirects are left to the SDK, which follows one only within the origin it was configured for. So the headers of a
request, which may hold secrets, never reach another host.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from typing import Any

import httpx2

from duologue.mcp.url_policy import PORTS, Address, check_address, resolve

REQUEST_SECONDS = 30.0
"""Seconds for connecting and for sending. Responses have no such limit: a tool may run for minutes."""


class WebClient(httpx2.AsyncClient):
    """HTTP client of one MCP server.

    Args:
        headers: Sent with every request.
        allow_hosts: Hosts that may have a private IP address; `None` allows every host.
        max_message_bytes: Largest response to read.
        on_rejection: Called with the reason if a message is rejected: a status such as `HTTP 401`, or an error.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        allow_hosts: Collection[str] | None,
        max_message_bytes: int,
        on_rejection: Callable[[str], None],
    ) -> None:
        self._max_bytes = max_message_bytes
        self._on_rejection = on_rejection
        super().__init__(
            # The size of compressed responses could not be limited by what arrives.
            headers={**headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(REQUEST_SECONDS, read=None),
            # With a list of hosts this client connects directly; without one it uses the configured proxies.
            transport=None if allow_hosts is None else PinnedTransport(allow_hosts),
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request as the base class does."""
        try:
            response = await super().send(request, **options)
        except httpx2.HTTPError as error:
            self._note(request, f"{type(error).__name__}: {error}")
            raise
        if response.status_code >= 400:
            self._note(request, f"HTTP {response.status_code}")
        self._bound(response)
        return response

    def _note(self, request: httpx2.Request, rejection: str) -> None:
        # Messages are sent by POST; other requests may be rejected.
        if request.method == "POST":
            self._on_rejection(rejection)

    def _bound(self, response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.StreamError("the server sent a compressed response, which was not requested")
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        if not is_stream and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, self._max_bytes)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._limit:
                raise httpx2.StreamError(f"the response is over the limit of {self._limit} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Connects to the IP address that was checked, so that the name cannot resolve to another one later."""

    def __init__(
        self,
        allow_hosts: Collection[str],
        *,
        inner: httpx2.AsyncBaseTransport | None = None,
        resolve: Callable[[str, int], Awaitable[list[Address]]] = resolve,
    ) -> None:
        self._allow_hosts = allow_hosts
        self._inner = inner or httpx2.AsyncHTTPTransport()
        self._resolve = resolve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        if host in self._allow_hosts:
            return await self._inner.handle_async_request(request)
        addresses = await self._resolve(host, request.url.port or PORTS[request.url.scheme])
        if not addresses:
            raise httpx2.ConnectError(f"no address for {host}")
        for address in addresses:
            check_address(host, address, self._allow_hosts)
        pinned = httpx2.Request(
            request.method,
            request.url.copy_with(host=str(addresses[0])),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )
        return await self._inner.handle_async_request(pinned)

    async def aclose(self) -> None:
        await self._inner.aclose()
