"""Check each request before its body is read: the `Host`, the `Origin`, and a token.

A web page in the user's own browser reaches every server on this machine, so an address proves nothing. What a page
cannot do is to leave out or choose its `Origin`, to choose `Host`, or to know the token.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from starlette.types import Scope

from duologue.transports.server.limits import Limits
from duologue.transports.server.tokens import Authenticate, TokenVerifier, TooManyFailedAttempts

SUBPROTOCOLS = ("acp", "acp.v1", "acp.v2")
"""Names of the protocol on a WebSocket; the version is negotiated in `initialize`."""

TOKEN_SUBPROTOCOLS = ("duologue.token.", "bearer.", "openab.bearer.", "hydra-acp-token.")
"""Prefixes with which browsers, which cannot set headers, send a token for a WebSocket: ours and those of others."""

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
MAX_TOKEN_CHARS = 4096
ANONYMOUS = "anybody"
"""The caller of every request where no token is required. Its sessions are stored under this name: keep it."""


@dataclass(frozen=True)
class Caller:
    """An authenticated caller: its address, its name, and the subprotocol to select."""

    address: str
    name: str
    subprotocol: str | None = None


class RequestRejected(Exception):
    """A rejected request: the HTTP status and reason, and a JSON-RPC error as body for clients of the protocol."""

    def __init__(
        self, status: int, reason: str, headers: dict[str, str] | None = None, *, body: bytes | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers or {}
        self.body = body


class AccessControl:
    """Authenticate each request.

    Args:
        authenticate: Returns the caller that a token belongs to; `None` requires no token.
        limits: The limits of headers and of failed attempts.
        hosts: Names of this server in addition to loopback, with a port if it is not the server's own.
        origins: Web pages that may connect, in addition to those of the server itself.
        trusted_proxies: Addresses whose `X-Forwarded-For` is trusted.
        is_behind_tls: A proxy terminates TLS, so the server's own pages are at `https:`.
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
        self._tokens = None if authenticate is None else TokenVerifier(authenticate, limits)
        self._hosts = {host.lower() for host in (*LOOPBACK_NAMES, *hosts)}
        self._origins = {origin.lower() for origin in origins}
        self._trusted = set(trusted_proxies)
        self._is_behind_tls = is_behind_tls
        self._header_bytes = limits.header_bytes

    async def authenticate(self, scope: Scope) -> Caller:
        """Return the caller of a request.

        Raises:
            RequestRejected: The host or origin is foreign, or the token is missing or wrong.
        """
        headers = Headers(scope)
        self.check_host_and_origin(scope, headers)
        address = self.address(scope, headers)
        if self._tokens is None:
            return Caller(address, ANONYMOUS, _subprotocol(scope))
        token = _token(scope, headers)
        try:
            caller = None if token is None else await self._tokens.caller_of(token, address)
        except TooManyFailedAttempts as error:
            raise RequestRejected(429, str(error), {"Retry-After": str(error.seconds)}) from None
        if caller is None:
            raise RequestRejected(401, "a valid token is required", {"WWW-Authenticate": "Bearer"})
        return Caller(address, caller, _subprotocol(scope))

    def check_host_and_origin(self, scope: Scope, headers: Headers | None = None) -> None:
        """Reject requests for another host, and requests of foreign web pages.

        Raises:
            RequestRejected: The request is one of these.
        """
        headers = headers or Headers(scope)
        if headers.size > self._header_bytes:
            raise RequestRejected(431, f"the headers have {headers.size} bytes; at most {self._header_bytes} are read")
        hosts = headers.all(b"host")
        if not hosts:
            raise RequestRejected(400, "the Host header is missing")
        if len(hosts) != 1 or not self._is_own_host(hosts[0], scope):
            raise RequestRejected(403, "the Host header does not name this server")
        origins = headers.all(b"origin")
        if len(origins) > 1 or (origins and not self._is_allowed_origin(origins[0], hosts[0], scope)):
            raise RequestRejected(403, "web pages of other origins may not connect")

    def address(self, scope: Scope, headers: Headers | None = None) -> str:
        """Return the address of the client; `X-Forwarded-For` counts only from a trusted proxy."""
        client = scope.get("client")
        address: str = client[0] if client else "unknown"
        if address in self._trusted:
            forwarded = ",".join((headers or Headers(scope)).all(b"x-forwarded-for"))
            address = forwarded.rpartition(",")[2].strip() or address
        return address

    def _is_own_host(self, host: str, scope: Scope) -> bool:
        host = host.lower()
        if host in self._hosts:
            return True
        _, own_port = scope.get("server") or (None, None)
        name, _, port = host.rpartition(":")
        return own_port is not None and port == str(own_port) and name in self._hosts

    def _is_allowed_origin(self, origin: str, host: str, scope: Scope) -> bool:
        is_tls = self._is_behind_tls or scope["scheme"] in ("https", "wss")
        own = f"{'https' if is_tls else 'http'}://{host}"
        return origin.lower() == own.lower() or origin.lower() in self._origins


class Headers:
    """The headers of a request."""

    def __init__(self, scope: Scope) -> None:
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._target = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")

    @property
    def size(self) -> int:
        """The approximate number of bytes before the body of the request."""
        return self._target + sum(len(name) + len(value) + 4 for name, value in self._headers)

    def all(self, name: bytes) -> list[str]:
        """Return all values of a header."""
        return [value.decode("latin-1") for given, value in self._headers if given.lower() == name]


def _token(scope: Scope, headers: Headers) -> str | None:
    """Return the token of a request; the URL is not searched, because URLs end up in logs and histories."""
    given = headers.all(b"authorization")
    if scope["type"] == "websocket" and not given:
        tokens = [token for name in _offered(scope) if (token := _token_in(name)) is not None]
        return tokens[0] if len(tokens) == 1 and 0 < len(tokens[0]) <= MAX_TOKEN_CHARS else None
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return token if scheme.lower() == "bearer" and 0 < len(token) <= MAX_TOKEN_CHARS and " " not in token else None


def _offered(scope: Scope) -> list[str]:
    return scope.get("subprotocols") or []


def _token_in(subprotocol: str) -> str | None:
    for prefix in TOKEN_SUBPROTOCOLS:
        if subprotocol.startswith(prefix):
            return subprotocol.removeprefix(prefix)
    return None


def _subprotocol(scope: Scope) -> str | None:
    """Return the subprotocol to select: a browser closes a connection whose server selects none of the offered."""
    known = [name for name in _offered(scope) if name in SUBPROTOCOLS or _token_in(name) is not None]
    return min(known, key=lambda name: name not in SUBPROTOCOLS, default=None)
