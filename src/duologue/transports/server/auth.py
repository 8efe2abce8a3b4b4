"""Who may come in: the right name of the server, no foreign web page, and a token. Asked before anything is read.

A web page in the user's own browser reaches every server on this machine, so an address proves nothing. What a page
cannot do is to leave out or choose its `Origin`, to choose `Host`, or to know the token.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from starlette.types import Scope

from duologue.transports.server.limits import Limits
from duologue.transports.server.tokens import Authenticate, TokenVerifier, TooManyFailedAttempts

__all__ = ["ANONYMOUS", "AccessControl", "Caller", "RequestRejected"]

SUBPROTOCOLS = ("acp", "acp.v1", "acp.v2")
"""What clients call the protocol on a WebSocket; the version is agreed in `initialize`."""

TOKEN_SUBPROTOCOLS = ("duologue.token.", "bearer.", "openab.bearer.", "hydra-acp-token.")
"""How browsers, which can set no headers, bring their token along with a WebSocket: ours, and those of others."""

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
MAX_TOKEN_CHARS = 4096
ANONYMOUS = "anybody"
"""The caller, where no token is asked for."""


@dataclass(frozen=True)
class Caller:
    """Somebody at the door: where from, and who, once that is known."""

    address: str
    caller: str
    subprotocol: str | None = None


class RequestRejected(Exception):
    """Not let in; the status and the reason to answer with, and a JSON-RPC error for those who expect one."""

    def __init__(
        self, status: int, reason: str, headers: dict[str, str] | None = None, *, body: bytes | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers or {}
        self.body = body


class AccessControl:
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
        self._tokens = None if authenticate is None else TokenVerifier(authenticate, limits)
        self._hosts = {host.lower() for host in (*LOOPBACK_NAMES, *hosts)}
        self._origins = {origin.lower() for origin in origins}
        self._trusted = set(trusted_proxies)
        self._is_behind_tls = is_behind_tls
        self._header_bytes = limits.header_bytes

    async def authenticate(self, scope: Scope) -> Caller:
        """Let somebody in.

        Raises:
            Refusal: Not this one.
        """
        headers = Headers(scope)
        self.check_host_and_origin(scope, headers)
        address = self.address(scope, headers)
        if self._tokens is None:
            return Caller(address, ANONYMOUS, _subprotocol(scope))
        token = _token(scope, headers)
        try:
            caller = None if token is None else await self._tokens.caller_of(token, address)
        except TooManyFailedAttempts as refusal:
            raise RequestRejected(429, str(refusal), {"Retry-After": str(refusal.seconds)}) from None
        if caller is None:
            raise RequestRejected(401, "a valid token is needed", {"WWW-Authenticate": "Bearer"})
        return Caller(address, caller, _subprotocol(scope))

    def check_host_and_origin(self, scope: Scope, headers: Headers | None = None) -> None:
        """Refuse foreign names and foreign pages.

        Raises:
            Refusal: It is one.
        """
        headers = headers or Headers(scope)
        if headers.size > self._header_bytes:
            raise RequestRejected(431, f"the headers have {headers.size} bytes; at most {self._header_bytes} are read")
        hosts = headers.all(b"host")
        if len(hosts) != 1 or not self._is_ours(hosts[0], scope):
            raise RequestRejected(403, "this is not the server you are looking for")
        origins = headers.all(b"origin")
        if len(origins) > 1 or (origins and not self._is_welcome(origins[0], hosts[0], scope)):
            raise RequestRejected(403, "web pages from elsewhere may not connect")

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
        self._target = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")

    @property
    def size(self) -> int:
        """Bytes of the request before its body, as they were sent, but for a few."""
        return self._target + sum(len(name) + len(value) + 4 for name, value in self._headers)

    def all(self, name: bytes) -> list[str]:
        """Each value of a header that may be there more than once."""
        return [value.decode("latin-1") for given, value in self._headers if given.lower() == name]


def _token(scope: Scope, headers: Headers) -> str | None:
    """The token of a request, wherever it may be; never in the address, which gets into logs and histories."""
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
    """The one to select: a browser ends a connection whose server selects none of those that it offered."""
    known = [name for name in _offered(scope) if name in SUBPROTOCOLS or _token_in(name) is not None]
    return min(known, key=lambda name: name not in SUBPROTOCOLS, default=None)
