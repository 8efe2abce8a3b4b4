"""Who may come in: the right name of the server, no foreign web page, and a token. Asked before anything is read.

A web page in the user's own browser reaches every server on this machine, so an address proves nothing. What a page
cannot do is to leave out or choose its `Origin`, to choose `Host`, or to know the token.
"""

from __future__ import annotations

import hmac
import inspect
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from starlette.types import Scope

from duologue.transports.asgi.limits import Limits

__all__ = ["ANYBODY", "SUBPROTOCOL", "Authenticate", "Doors", "Refusal", "Visitor", "one_token"]

Authenticate: TypeAlias = Callable[[str], "str | None | Awaitable[str | None]"]
"""From a token to the name of its caller; `None` for a token that is wrong, or right no more."""

SUBPROTOCOL = "acp"
TOKEN_SUBPROTOCOL = "duologue.token."  # noqa: S105 (a prefix)
"""How a browser, which can set no headers, brings its token along with a WebSocket."""

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
MAX_TOKEN_CHARS = 4096
MAX_ADDRESSES = 10_000
"""Whose failures are remembered; the oldest are forgotten."""

ANYBODY = "anybody"
"""The caller, where no token is asked for."""


@dataclass(frozen=True)
class Visitor:
    """Somebody at the door: where from, and who, once that is known."""

    address: str
    caller: str
    subprotocol: str | None = None


class Refusal(Exception):
    """Not let in; the status and the reason to answer with, and a JSON-RPC error for those who expect one."""

    def __init__(
        self, status: int, reason: str, headers: dict[str, str] | None = None, *, body: bytes | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers or {}
        self.body = body


def one_token(token: str, caller: str = "owner") -> Authenticate:
    """One token for one caller."""
    expected = token.encode()

    def check(given: str) -> str | None:
        # As long for a wrong token as for the right one.
        return caller if hmac.compare_digest(given.encode(), expected) else None

    return check


class Doors:
    """Checks each request.

    Args:
        authenticate: Whose token it is; `None` lets everybody in who passes the other checks.
        hosts: Names of this server beside those of loopback, with a port if it is not the server's own.
        origins: Web pages that may connect, beside those of the server itself.
        trusted_proxies: Addresses whose `X-Forwarded-For` is believed.
        is_behind_tls: A proxy speaks TLS for us, so our own pages are at `https:`.
    """

    def __init__(
        self,
        authenticate: Authenticate | None,
        limits: Limits,
        *,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        trusted_proxies: Collection[str] = (),
        is_behind_tls: bool = False,
    ) -> None:
        self._authenticate = authenticate
        self._hosts = {host.lower() for host in (*LOOPBACK_NAMES, *hosts)}
        self._origins = {origin.lower() for origin in origins}
        self._trusted = set(trusted_proxies)
        self._is_behind_tls = is_behind_tls
        self._failures = Failures(limits.failures_per_minute)

    async def enter(self, scope: Scope) -> Visitor:
        """Let somebody in.

        Raises:
            Refusal: Not this one.
        """
        headers = Headers(scope)
        self.check_name(scope, headers)
        address = self.address(scope, headers)
        if self._authenticate is None:
            return Visitor(address, ANYBODY, _subprotocol(scope))
        if self._failures.are_too_many(address):
            raise Refusal(429, "too many wrong tokens; wait a minute", {"Retry-After": "60"})
        token = _token(scope, headers)
        caller = None if token is None else await _resolve(self._authenticate(token))
        if caller is None:
            if token is not None:
                self._failures.add(address)
            raise Refusal(401, "a valid token is needed", {"WWW-Authenticate": "Bearer"})
        return Visitor(address, caller, _subprotocol(scope))

    def check_name(self, scope: Scope, headers: Headers | None = None) -> None:
        """Refuse foreign names and foreign pages.

        Raises:
            Refusal: It is one.
        """
        headers = headers or Headers(scope)
        hosts = headers.all(b"host")
        if len(hosts) != 1 or not self._is_ours(hosts[0], scope):
            raise Refusal(403, "this is not the server you are looking for")
        origins = headers.all(b"origin")
        if len(origins) > 1 or (origins and not self._is_welcome(origins[0], hosts[0], scope)):
            raise Refusal(403, "web pages from elsewhere may not connect")

    def address(self, scope: Scope, headers: Headers | None = None) -> str:
        """Where a request comes from; the word of a proxy counts only if it is trusted."""
        client = scope.get("client")
        address: str = client[0] if client else "unknown"
        if address in self._trusted:
            forwarded = ",".join((headers or Headers(scope)).all(b"x-forwarded-for"))
            address = forwarded.rpartition(",")[2].strip() or address
        return address

    def _is_ours(self, host: str, scope: Scope) -> bool:
        host = host.lower()
        if host in self._hosts:
            return True
        _, own_port = scope.get("server") or (None, None)
        name, _, port = host.rpartition(":")
        return own_port is not None and port == str(own_port) and name in self._hosts

    def _is_welcome(self, origin: str, host: str, scope: Scope) -> bool:
        is_tls = self._is_behind_tls or scope["scheme"] in ("https", "wss")
        own = f"{'https' if is_tls else 'http'}://{host}"
        return origin.lower() == own.lower() or origin.lower() in self._origins


class Headers:
    """The headers of a request, all of them."""

    def __init__(self, scope: Scope) -> None:
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]

    def all(self, name: bytes) -> list[str]:
        """Each value of a header that may be there more than once."""
        return [value.decode("latin-1") for given, value in self._headers if given.lower() == name]


class Failures:
    """Counts wrong tokens by address, for a minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._times: OrderedDict[str, list[float]] = OrderedDict()

    def add(self, address: str) -> None:
        """One more."""
        self._times.setdefault(address, []).append(self._clock())
        self._times.move_to_end(address)
        if len(self._times) > MAX_ADDRESSES:
            self._times.popitem(last=False)

    def are_too_many(self, address: str) -> bool:
        """Whether this address has to wait."""
        since = self._clock() - 60
        times = [at for at in self._times.get(address, ()) if at > since]
        if times:
            self._times[address] = times
        else:
            self._times.pop(address, None)
        return len(times) >= self._per_minute


def _token(scope: Scope, headers: Headers) -> str | None:
    """The token of a request, wherever it may be; never in the address, which gets into logs and histories."""
    given = headers.all(b"authorization")
    if scope["type"] == "websocket" and not given:
        protocols: list[str] = scope.get("subprotocols") or []
        tokens = [name.removeprefix(TOKEN_SUBPROTOCOL) for name in protocols if name.startswith(TOKEN_SUBPROTOCOL)]
        return tokens[0] if len(tokens) == 1 and len(tokens[0]) <= MAX_TOKEN_CHARS else None
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return token if scheme.lower() == "bearer" and 0 < len(token) <= MAX_TOKEN_CHARS and " " not in token else None


def _subprotocol(scope: Scope) -> str | None:
    return SUBPROTOCOL if SUBPROTOCOL in (scope.get("subprotocols") or ()) else None


async def _resolve(found: str | None | Awaitable[str | None]) -> str | None:
    return await found if inspect.isawaitable(found) else found
