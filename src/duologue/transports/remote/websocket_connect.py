"""Open a WebSocket: certificates, proxies, cookies, and clear errors."""

from __future__ import annotations

import ssl
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus, WebSocketException

from duologue.transports.buffered import LINGER_SECONDS
from duologue.transports.remote.connect_errors import rejected, unreachable
from duologue.transports.remote.cookies import BoundedCookieJar
from duologue.transports.remote.url import RemoteEndpoint
from duologue.transports.remote.websocket_connection import WebSocketConnection

OPEN_SECONDS = 10.0
"""For a server to accept a connection, or to resume one."""


class WebSocketConnector:
    """Open WebSockets to one server; cookies set by one are sent with the next.

    Args:
        address: URL, headers and certificates of the server.
        max_message_bytes: Longest message that is received.
        write_ahead: Bytes that may wait to be written before the connection is congested.
        output_stall: Seconds after which a connection ends whose waiting output makes no progress.
        ping_seconds: Between two pings.
    """

    def __init__(
        self,
        address: RemoteEndpoint,
        *,
        max_message_bytes: int,
        write_ahead: int,
        output_stall: float | None,
        ping_seconds: float,
    ) -> None:
        self.cookies = BoundedCookieJar()
        self._address = address
        self._max_message = max_message_bytes
        self._write_ahead = write_ahead
        self._output_stall = output_stall
        self._ping_seconds = ping_seconds
        self._tls: ssl.SSLContext | None = None

    async def connect(self) -> WebSocketConnection:
        """Open a new WebSocket.

        Raises:
            ConnectError: No server answers at this URL, or it rejects the client.
        """
        address = self._address
        cookies = self.cookies.header_for(address.url)
        if address.is_secure and self._tls is None:
            self._tls = address.tls()  # slow: reads the certificates
        options: dict[str, Any] = {} if self._tls is None else {"ssl": self._tls}
        try:
            connection = await _Connect(
                address.socket_url,
                additional_headers={**address.headers, **({} if cookies is None else {"Cookie": cookies})},
                compression=None,
                open_timeout=OPEN_SECONDS,
                ping_interval=self._ping_seconds,
                ping_timeout=self._ping_seconds,
                close_timeout=LINGER_SECONDS,
                max_size=self._max_message,
                write_limit=self._write_ahead,
                create_connection=WebSocketConnection,
                **options,
            )
        except (
            OSError,
            WebSocketException,
            ValueError,
            ImportError,
        ) as error:  # a proxy may need a package that is not installed
            if isinstance(error, InvalidStatus):
                named = {name.lower(): value for name, value in error.response.headers.raw_items()}
                raise rejected(address.socket_url, error.response.status_code, named) from error
            raise unreachable(address.socket_url, error) from error
        assert isinstance(connection, WebSocketConnection)
        connection.stall_check.seconds = self._output_stall
        if connection.response is not None:
            self.cookies.store(address.url, connection.response.headers.get_all("Set-Cookie"))
        return connection


class _Connect(connect):
    """Follow no redirect: it would send the headers to another server."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc
