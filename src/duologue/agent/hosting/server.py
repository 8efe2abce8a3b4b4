"""Serve an agent over the network: as an ASGI application, or with a server of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from duologue.agent.hosting.stdio import check_no_loop, errors_on_stderr
from duologue.agent.hosting.tenants import PerCallerAgents, StoreFactory
from duologue.transports.server.app import ServerApp
from duologue.transports.server.auth import AccessControl
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import DRAIN_SECONDS, ServerAddress, new_token, run
from duologue.transports.server.tokens import Authenticate, single_token

if TYPE_CHECKING:
    from duologue.agent.agent import Agent


class ServerKeywords(TypedDict, total=False):
    """The fields of `ServerOptions`, as keyword arguments."""

    token: str | None
    authenticate: Authenticate | None
    store_for: StoreFactory | None
    hosts: Collection[str]
    origins: Collection[str]
    trusted_proxies: Collection[str]
    is_behind_tls: bool
    certificate: str | Path | None
    key: str | Path | None
    host: str
    drain_seconds: float
    limits: Limits


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Access to an agent over the network.

    Attributes:
        token: The bearer token that clients need. Without it and without `authenticate`, a random one is printed.
        authenticate: Maps a token to the name of its caller; each caller has separate sessions.
        store_for: Returns the store of a caller's sessions; needed only if the agent's store is your own class.
        hosts: Allowed `Host` headers in addition to those of loopback.
        origins: Allowed origins of web pages in addition to the server's own.
        trusted_proxies: IP addresses of proxies whose `X-Forwarded-For` is used.
        is_behind_tls: Whether a proxy in front of the server speaks TLS.
        certificate: File with the server's TLS certificate.
        key: File with the private key of the certificate.
        host: The IP address or host name to listen on.
        drain_seconds: Seconds that running turns get to end when the server is stopped.
        limits: All other limits.
    """

    token: str | None = None
    authenticate: Authenticate | None = None
    store_for: StoreFactory | None = None
    hosts: Collection[str] = ()
    origins: Collection[str] = ()
    trusted_proxies: Collection[str] = ()
    is_behind_tls: bool = False
    certificate: str | Path | None = None
    key: str | Path | None = None
    host: str = "127.0.0.1"
    drain_seconds: float = DRAIN_SECONDS
    limits: Limits = Limits()  # noqa: RUF009 (it is immutable)


def asgi_app(agent: Agent[Any], options: ServerOptions, address: ServerAddress | None = None) -> ServerApp:
    """Return an agent as an ASGI application."""
    token = options.token
    if token is None and options.authenticate is None:
        token = new_token()
        sys.stderr.write(f"{agent.info.name}: clients need the token {token}\n")
    authenticate = options.authenticate or single_token(token or "")
    access = AccessControl(
        authenticate,
        options.limits,
        hosts=(*options.hosts, *(address.hostnames if address is not None else ())),
        origins=options.origins,
        trusted_proxies=options.trusted_proxies,
        is_behind_tls=options.is_behind_tls,
    )
    if options.authenticate is None:
        return ServerApp(lambda caller: agent, access, options.limits)
    callers = PerCallerAgents(agent, options.store_for)
    return ServerApp(callers, access, options.limits, on_close=callers.aclose)


def run_server(agent: Agent[Any], options: ServerOptions, *, port: int, scheme: str) -> None:
    """Serve an agent until a signal stops the server. Blocks."""
    check_no_loop("agent.asgi()", "an application that your ASGI server runs")
    address = ServerAddress(
        host=options.host,
        port=port,
        certificate=options.certificate,
        key=options.key,
        is_behind_tls=options.is_behind_tls,
    )
    address.check()
    # Only a token that is made here is printed.
    made = new_token() if options.token is None and options.authenticate is None else None
    app = asgi_app(agent, options if made is None else replace(options, token=made), address)

    def started(port: int) -> None:
        sys.stderr.write(f"{agent.info.name} is at {address.url(port, scheme, made)}\n")
        sys.stderr.flush()

    with errors_on_stderr():
        code = asyncio.run(run(app, address, started, drain_seconds=options.drain_seconds))
    if code:
        sys.exit(code)
