"""Starting and stopping a web server around the endpoint, and refusing to open what nobody should open by accident."""

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
from duologue.transports.server.app import PATH, ServerApp
from duologue.transports.server.uvicorn_protocols import HardenedHttpProtocol, HardenedWebSocketProtocol

__all__ = ["DRAIN_SECONDS", "ServerAddress", "new_token", "run", "serve"]

_log = logging.getLogger("duologue.server")

PING_SECONDS = 20.0
"""How often a silent client is asked whether it is still there, and how long it may take to say so."""

KEEP_ALIVE_SECONDS = 30
"""How long a connection waits for the next request: a client that is at work posts more often."""

DRAIN_SECONDS = 30.0
"""For running turns to end when the server is told to stop."""

LINGER_SECONDS = 2
"""For the last answers to leave."""


BACKLOG = 2048
"""Connections that the system keeps until they are accepted."""

ACCEPT_AT_ONCE = 1
"""asyncio tries a failed accept again as many times as it may accept at once, with a traceback for each."""

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
    """Where to listen, and what stands between that place and the world.

    Attributes:
        host: An address or a name of this machine.
        port: 0 lets the system choose.
        certificate: TLS: the certificate and what vouches for it, in one PEM file.
        key: TLS: its private key, if that is in a file of its own.
        has_token: Callers need a token.
        is_behind_tls: A proxy in front speaks TLS.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: str | Path | None = None
    key: str | Path | None = None
    has_token: bool = True
    is_behind_tls: bool = False

    def check(self) -> None:
        """Refuse to listen where everybody can reach us and read along.

        Raises:
            StartError: That is what would happen.
        """
        if _is_loopback(self.host):
            return
        if not self.has_token:
            raise StartError(f"refusing to listen on {self.host} without a token: everybody could use the agent")
        if self.certificate is None and not self.is_behind_tls:
            raise StartError(
                f"refusing to listen on {self.host} without TLS: everybody could read along; name a certificate, "
                "or say that a proxy in front of this server speaks TLS"
            )

    @property
    def hostnames(self) -> tuple[str, ...]:
        """How clients name this server, as far as its address says."""
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return (self.host,)
        if address.is_unspecified:
            return ()
        return (f"[{address}]" if address.version == 6 else str(address),)

    def url(self, port: int, scheme: str = "ws", token: str | None = None) -> str:
        """The address for clients. A token travels behind the `#`, which no client sends to a server."""
        secure = "s" if self.certificate is not None else ""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}{secure}://{name}:{port}{PATH}{'' if token is None else f'#token={token}'}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@asynccontextmanager
async def serve(app: ServerApp, place: ServerAddress, *, drain_seconds: float = 0.0) -> AsyncGenerator[int]:
    """Serve as long as the context lasts; yields the port.

    Raises:
        StartError: The place is not safe, taken, or not ours.
    """
    place.check()
    listener = _listen(place)
    config = _config(app, place)
    # Not `serve()`, which takes the signals of the whole process and looks ten times a second for something to do.
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    listener.listen(BACKLOG)
    try:
        with _accepting_quietly(listener):
            yield listener.getsockname()[1]
    finally:
        await app.connections.drain(drain_seconds)
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
    """When asyncio tries again, it also shortens the queue of the system."""
    if listener.fileno() >= 0:
        listener.listen(BACKLOG)


def _listen(place: ServerAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        listener = socket.create_server((place.host, place.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise StartError(f"cannot listen on {place.host}:{place.port}: {error.strerror or error}") from None
    # asyncio does this only for sockets that name their protocol; without it a small answer waits 40 ms for company.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _config(app: ServerApp, place: ServerAddress) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=HardenedHttpProtocol,
        ws=HardenedWebSocketProtocol,
        backlog=ACCEPT_AT_ONCE,
        ws_max_size=app.limits.message_bytes,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        # Compressed, each connection would hold a window of its own, and a small message could become a huge one.
        ws_per_message_deflate=False,
        # Whose word about addresses counts is decided at our own door.
        proxy_headers=False,
        server_header=False,
        date_header=False,
        log_config=None,
        # Its log of each request has whole addresses, with what some clients put into them.
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=LINGER_SECONDS,
        ssl_certfile=place.certificate,
        ssl_keyfile=None if place.key is None else str(place.key),
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"cannot use the certificate {place.certificate}: {error}") from None
    return config


async def run(
    app: ServerApp, place: ServerAddress, started: Callable[[int], object], *, drain_seconds: float = DRAIN_SECONDS
) -> int:
    """Serve until a signal says to stop; a second one does not wait for running turns. The exit code."""
    loop = asyncio.get_running_loop()
    told: list[int] = []
    is_told = asyncio.Event()
    drained: asyncio.Task[None] | None = None

    def tell(number: int) -> None:
        told.append(number)
        is_told.set()
        if len(told) > 1 and drained is not None:
            drained.cancel()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, tell, number)
    async with serve(app, place) as port:
        started(port)
        await is_told.wait()
        async with asyncio.TaskGroup() as group:
            drained = group.create_task(app.connections.drain(drain_seconds))
    return 0 if told[0] != signal.SIGINT else 128 + signal.SIGINT
