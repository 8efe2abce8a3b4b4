"""Connect to an HTTP server: the proxies of the environment, certificates, and HTTP/2 where both ends support it."""

from __future__ import annotations

import asyncio
import base64
import ssl
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from duologue.transports.remote.http_connection import HttpConnection, HttpError, HttpRequest
from duologue.transports.remote.url import RemoteEndpoint, ascii_host, is_address

CONNECT_SECONDS = 10.0
"""For a server to accept a connection, through its proxy and with TLS."""

ADDRESS_SECONDS = 0.25
"""Before the next address of a host is tried, too."""

PORTS = {"http": 80, "https": 443}


class HttpProxy(NamedTuple):
    """A proxy: its host and port, whether to use TLS with it, and its `Proxy-Authorization`, if it has one."""

    host: str
    port: int
    is_secure: bool
    authorization: str | None

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers for the proxy itself."""
        return [] if self.authorization is None else [("proxy-authorization", self.authorization)]


class HttpConnector:
    """Open connections to one server.

    Args:
        address: URL and certificates of the server.

    Raises:
        ValueError: The environment names a proxy that cannot be used.
    """

    def __init__(self, address: RemoteEndpoint) -> None:
        parts = urlsplit(address.url)
        self._host = parts.hostname or ""
        self._port = parts.port or PORTS[parts.scheme]
        name = f"[{self._host}]" if ":" in self._host else self._host
        self.authority = name if parts.port is None else f"{name}:{self._port}"
        self._endpoint = f"{name}:{self._port}"
        self._tls = address.tls() if address.is_secure else None
        if self._tls is not None and find_spec("h2") is not None:
            self._tls.set_alpn_protocols(["h2", "http/1.1"])
        self._proxy = _proxy_for(parts.scheme, {self._host, self._endpoint})

    @property
    def forwarder(self) -> HttpProxy | None:
        """The proxy that gets whole URLs, because the connection is not encrypted; `None` if there is none."""
        return self._proxy if self._tls is None else None

    async def connect(self) -> HttpConnection:
        """Open a connection.

        Raises:
            HttpError: The server or its proxy cannot be reached.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._connect()
        except TimeoutError as error:
            raise HttpError(f"no connection within {CONNECT_SECONDS:g} s") from error
        except (OSError, UnicodeError) as error:  # also a host name that cannot exist, such as `a..b`
            raise HttpError(str(error) or type(error).__name__) from error

    async def _connect(self) -> HttpConnection:
        proxy = self._proxy
        if proxy is None:
            connection = await _open(self._host, self._port, self._tls)
        else:
            tls = ssl.create_default_context() if proxy.is_secure else None
            connection = await _open(proxy.host, proxy.port, tls)
            if self._tls is not None:
                connection = await self._tunnel(connection, proxy, self._tls)
        secured = connection.transport.get_extra_info("ssl_object")
        if secured is not None and secured.selected_alpn_protocol() == "h2":
            from duologue.transports.remote.http2_connection import Http2Connection

            first, connection = connection, Http2Connection()
            first.transport.set_protocol(connection)
            connection.connection_made(first.transport)
            connection.data_received(first.unrequested)
        return connection

    async def _tunnel(self, connection: HttpConnection, proxy: HttpProxy, tls: ssl.SSLContext) -> HttpConnection:
        """Let the proxy connect to the server, and encrypt what passes through it."""
        try:
            request = HttpRequest("CONNECT", "http", self._endpoint, self._endpoint, proxy.headers, None)
            await connection.send(request, None)
            if connection.status != 200:
                raise HttpError(f"the proxy {proxy.host}:{proxy.port} rejects the connection: HTTP {connection.status}")
            inner = HttpConnection()
            loop = asyncio.get_running_loop()
            transport = await loop.start_tls(connection.transport, inner, tls, server_hostname=self._host)
            assert transport is not None
            inner.connection_made(transport)
        except BaseException:
            connection.transport.abort()
            raise
        return inner


async def _open(host: str, port: int, tls: ssl.SSLContext | None) -> HttpConnection:
    name = None if tls is None else host
    loop = asyncio.get_running_loop()
    # Other event loops, such as uvloop, try the addresses one after the other and reject the argument. A host that is
    # an address has no others; and if a race is cancelled as it is won, asyncio leaves a socket open for a while.
    has_race = isinstance(loop, asyncio.BaseEventLoop) and not is_address(host)
    delay: dict[str, Any] = {"happy_eyeballs_delay": ADDRESS_SECONDS} if has_race else {}
    _, connection = await loop.create_connection(HttpConnection, host, port, ssl=tls, server_hostname=name, **delay)
    return connection


def _proxy_for(scheme: str, names: set[str]) -> HttpProxy | None:
    proxies = getproxies()
    url = proxies.get(scheme) or proxies.get("all")
    if not url or any(map(proxy_bypass, names)):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError(f"the proxy {parts.scheme}://{parts.hostname} is not supported; set one with http:// instead")
    secret = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        secret = f"Basic {base64.b64encode(pair).decode()}"
    return HttpProxy(ascii_host(parts.hostname), parts.port or PORTS[parts.scheme], parts.scheme == "https", secret)
