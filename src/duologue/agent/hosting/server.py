"""Putting an agent on the network: as a web application, or as a server of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from duologue.agent.hosting.stdio import errors_on_stderr
from duologue.agent.hosting.tenants import PerCallerAgents, StoreFactory
from duologue.transports.server.app import ServerApp
from duologue.transports.server.auth import AccessControl
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import DRAIN_SECONDS, ServerAddress, new_token, run
from duologue.transports.server.tokens import Authenticate, single_token

if TYPE_CHECKING:
    from duologue.agent.agent import Agent

__all__ = ["ServerKeywords", "ServerOptions", "asgi_app", "run_server"]


class ServerKeywords(TypedDict, total=False):
    """`Remote`, as keyword arguments."""

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
    """Who may reach an agent over the network, and how.

    Attributes:
        token: What callers have to know; a random one is made and printed if there is no `authenticate` either.
        authenticate: From a token to the name of its caller, for several; each has sessions of its own.
        store_for: Where the sessions of a caller are kept; needed only for a store of your own.
        hosts: Names of the server beside those of loopback.
        origins: Web pages that may connect, beside the server's own.
        trusted_proxies: Addresses whose `X-Forwarded-For` is believed.
        is_behind_tls: A proxy in front speaks TLS.
        certificate: TLS of our own: the certificate.
        key: TLS of our own: its key.
        host: The address to listen on.
        drain_seconds: For running turns to end when the server is told to stop.
        limits: Everything else that has a bound.
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
    limits: Limits = Limits()  # noqa: RUF009 (it never changes)


def asgi_app(agent: Agent[Any], remote: ServerOptions, place: ServerAddress | None = None) -> ServerApp:
    """The web application of an agent."""
    token = remote.token
    if token is None and remote.authenticate is None:
        token = new_token()
        sys.stderr.write(f"{agent.info.name}: clients need the token {token}\n")
    authenticate = remote.authenticate or single_token(token or "")
    doors = AccessControl(
        authenticate,
        remote.limits,
        hosts=(*remote.hosts, *(place.hostnames if place is not None else ())),
        origins=remote.origins,
        trusted_proxies=remote.trusted_proxies,
        is_behind_tls=remote.is_behind_tls,
    )
    if remote.authenticate is None:
        return ServerApp(lambda caller: agent, doors, remote.limits)
    callers = PerCallerAgents(agent, remote.store_for)
    return ServerApp(callers, doors, remote.limits, on_close=callers.aclose)


def run_server(agent: Agent[Any], remote: ServerOptions, *, port: int, scheme: str) -> None:
    """Serve until a signal says to stop. Blocks."""
    place = ServerAddress(
        host=remote.host,
        port=port,
        certificate=remote.certificate,
        key=remote.key,
        is_behind_tls=remote.is_behind_tls,
    )
    place.check()
    # A token that was given is known; one that is made here has to be told, this once.
    made = new_token() if remote.token is None and remote.authenticate is None else None
    app = asgi_app(agent, remote if made is None else replace(remote, token=made), place)

    def started(port: int) -> None:
        sys.stderr.write(f"{agent.info.name} is at {place.url(port, scheme, made)}\n")
        sys.stderr.flush()

    with errors_on_stderr():
        code = asyncio.run(run(app, place, started, drain_seconds=remote.drain_seconds))
    if code:
        sys.exit(code)
