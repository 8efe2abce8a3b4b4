"""Start and stop the web server, and reject addresses where listening would be unsafe."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import signal
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from duologue.errors import StartError
from duologue.transports.remote.url import is_loopback
from duologue.transports.server.app import PATH
from duologue.transports.server.protected_app import ProtectedApp
from duologue.transports.server.uvicorn_protocols import HardenedHttpProtocol, HardenedWebSocketProtocol

_log = logging.getLogger("duologue.server")

PING_SECONDS = 20.0
"""Between two pings to a silent client, and for its answer."""

KEEP_ALIVE_SECONDS = 30
"""How long a connection waits for the next request; an active client posts more often."""

DRAIN_SECONDS = 30.0
"""For running turns to end after a signal to stop."""

LINGER_SECONDS = 2
"""For the last responses to leave."""


BACKLOG = 2048
"""Connections that the kernel queues until they are accepted."""

ACCEPT_AT_ONCE = 1
"""asyncio repeats a failed accept this many times, each with a traceback."""

ACCEPT_FAILED = "socket.accept() out of system resource"
REPORT_SECONDS = 60.0
RELISTEN_SECONDS = 1.1


def new_token() -> str:
    """Return 256 random bits as text. It never begins with `-`: on a command line that would be an option."""
    while (token := secrets.token_urlsafe(32)).startswith("-"):
        pass
    return token


@dataclass(frozen=True, kw_only=True)
class ServerAddress:
    """The address to listen on, and its protection.

    Attributes:
        host: An address or a name of this machine.
        port: 0 lets the system choose.
        certificate: The TLS certificate and its chain, in one PEM file.
        key: Its private key, if that is in another file.
        has_token: Callers need a token.
        is_behind_tls: A proxy in front of the server terminates TLS.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: str | Path | None = None
    key: str | Path | None = None
    has_token: bool = True
    is_behind_tls: bool = False

    def check(self) -> None:
        """Refuse to listen on a public address without a token and TLS.

        Raises:
            StartError: The address is public and one of them is missing.
        """
        if is_loopback(self.host):
            return
        if not self.has_token:
            raise StartError(
                f"refusing to listen on {self.host} without a token: anyone on the network could use the agent"
            )
        if self.certificate is None and not self.is_behind_tls:
            raise StartError(
                f"refusing to listen on {self.host} without TLS: anyone on the network could read the messages; "
                "name a certificate, or say that a proxy in front of this server terminates TLS"
            )

    @property
    def hostnames(self) -> tuple[str, ...]:
        """The names of this server that follow from its address."""
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return (self.host,)
        if address.is_unspecified:
            return ()
        return (f"[{address}]" if address.version == 6 else str(address),)

    def url(self, port: int, scheme: str = "ws", token: str | None = None, path: str = PATH) -> str:
        """Return the URL for clients. A token follows the `#`, which no client sends to a server."""
        secure = "s" if self.certificate is not None else ""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}{secure}://{name}:{port}{path}{'' if token is None else f'#token={token}'}"


@asynccontextmanager
async def serve(app: ProtectedApp, address: ServerAddress, *, drain_seconds: float = 0.0) -> AsyncGenerator[int]:
    """Serve as long as the context lasts; yield the port.

    Raises:
        StartError: The address is unsafe, in use, or not one of this machine.
    """
    address.check()
    listener = _listen(address)
    config = _config(app, address)
    # Not `serve()`, which handles the signals of the whole process and polls ten times a second.
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    listener.listen(BACKLOG)
    try:
        with _accepting_quietly(listener):
            yield listener.getsockname()[1]
    finally:
        await app.drain(drain_seconds)
        await server.shutdown(sockets=[listener])


@contextmanager
def _accepting_quietly(listener: socket.socket) -> Generator[None]:
    """Report in one line, once a minute, that no connection can be accepted; asyncio tries again each second."""
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    next_report = 0.0

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal next_report
        if context.get("message") != ACCEPT_FAILED:
            loop.default_exception_handler(context) if before is None else before(loop, context)
            return
        if loop.time() >= next_report:
            next_report = loop.time() + REPORT_SECONDS
            _log.error("cannot accept connections: %s; trying again each second", context.get("exception"))
        loop.call_later(RELISTEN_SECONDS, _listen_again, listener)

    loop.set_exception_handler(handle)
    try:
        yield
    finally:
        loop.set_exception_handler(before)


def _listen_again(listener: socket.socket) -> None:
    """Restore the length of the kernel's queue, which asyncio shortens when it tries again."""
    if listener.fileno() >= 0:
        listener.listen(BACKLOG)


def _listen(address: ServerAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise StartError(f"cannot listen on {address.host}:{address.port}: {error.strerror or error}") from None
    # asyncio does this only for sockets that name their protocol; without it a small response waits 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _config(app: ProtectedApp, address: ServerAddress) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=HardenedHttpProtocol,
        ws=HardenedWebSocketProtocol,
        backlog=ACCEPT_AT_ONCE,
        ws_max_size=app.limits.message_bytes,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        # With compression each connection would need a window, and a small message could become a huge one.
        ws_per_message_deflate=False,
        # `AccessControl` decides which proxies are trusted.
        proxy_headers=False,
        server_header=False,
        date_header=False,
        log_config=None,
        # Its access log has whole URLs, with the secrets that some clients put into them.
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=LINGER_SECONDS,
        ssl_certfile=address.certificate,
        ssl_keyfile=None if address.key is None else str(address.key),
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"cannot use the certificate {address.certificate}: {error}") from None
    return config


async def run(
    app: ProtectedApp, address: ServerAddress, started: Callable[[int], object], *, drain_seconds: float = DRAIN_SECONDS
) -> int:
    """Serve until a signal; a second one does not wait for running turns. Return the exit code."""
    loop = asyncio.get_running_loop()
    received: list[int] = []
    is_stopping = asyncio.Event()
    drained: asyncio.Task[None] | None = None

    def on_signal(number: int) -> None:
        received.append(number)
        is_stopping.set()
        if len(received) > 1 and drained is not None:
            drained.cancel()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal, number)
    async with serve(app, address) as port:
        started(port)
        await is_stopping.wait()
        async with asyncio.TaskGroup() as group:
            drained = group.create_task(app.drain(drain_seconds))
    return 0 if received[0] != signal.SIGINT else 128 + signal.SIGINT
