"""The endpoint of a remote agent: URL, headers, token and certificates."""

from __future__ import annotations

import ipaddress
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, parse_qs, urlsplit

from duologue.errors import StartError

_log = logging.getLogger("duologue.transports")

TLSVerify: TypeAlias = ssl.SSLContext | str | Path | Literal[False] | None
"""How to verify the server: a context, a file of certificates in addition to the system's, or `False` to skip it."""

_PLAIN = {"ws": "http", "wss": "https", "http": "http", "https": "https"}
_SOCKET = {"http": "ws", "https": "wss"}


def is_remote(target: str) -> bool:
    """Return whether this is a URL rather than a command."""
    return target.partition("://")[0].lower() in _PLAIN and "://" in target


@dataclass(frozen=True)
class RemoteEndpoint:
    """One remote agent.

    Attributes:
        url: Its endpoint as `http` or `https`, without a secret; the path defaults to `/acp`.
        headers: Sent with every request, the token among them.
        trust: How to verify the certificate of the server.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    trust: TLSVerify = None

    @classmethod
    def of(
        cls, url: str, *, headers: Mapping[str, str] | None = None, token: str | None = None, trust: TLSVerify = None
    ) -> RemoteEndpoint:
        """Parse a URL as users write it; servers print theirs with `#token=…` at the end.

        Raises:
            StartError: It is no URL of a server, or it has a secret where logs would keep it.
        """
        parts = _split(url)
        sent = dict(headers or {})
        if any(character in text for pair in sent.items() for text in pair for character in "\r\n\0"):
            raise StartError("a header must be one line without null characters")
        token = token or next(iter(parse_qs(parts.fragment).get("token", [])), None)
        if token:
            sent["Authorization"] = f"Bearer {_sendable(token)}"
        if "token" in parse_qs(parts.query):
            raise StartError("a token in the query of a URL ends up in logs; write it as `#token=…`")
        if parts.username is not None or parts.password is not None:
            raise StartError("a password in a URL ends up in logs; send it in a header")
        if not parts.netloc.isascii():
            port = "" if parts.port is None else f":{parts.port}"
            parts = parts._replace(netloc=ascii_host(parts.hostname or "") + port)
        plain = _PLAIN[parts.scheme]
        if "Authorization" in sent and plain == "http" and not is_loopback(parts.hostname or ""):
            _log.warning("the token for %s leaves this machine unencrypted; use wss:// or https://", parts.netloc)
        return cls(parts._replace(scheme=plain, path=parts.path or "/acp", fragment="").geturl(), sent, trust)

    @property
    def socket_url(self) -> str:
        """The URL of the same endpoint for a WebSocket."""
        parts = urlsplit(self.url)
        return parts._replace(scheme=_SOCKET[parts.scheme]).geturl()

    @property
    def is_secure(self) -> bool:
        """Whether the connection is encrypted."""
        return self.url.startswith("https:")

    def tls(self) -> ssl.SSLContext:
        """Return the context that verifies the certificate of the server.

        Raises:
            StartError: The file of certificates cannot be read.
        """
        if isinstance(self.trust, ssl.SSLContext):
            return self.trust
        context = ssl.create_default_context()
        if self.trust is False:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.trust is not None:
            try:
                context.load_verify_locations(cafile=self.trust)
            except OSError as error:  # also if its content is invalid
                raise StartError(f"cannot use the certificates in {self.trust}: {error}") from None
        return context


def ascii_host(host: str) -> str:
    """Return the name of a host as it is looked up, by the rules of IDNA 2008 as in web browsers.

    Raises:
        StartError: It cannot be the name of a host.
    """
    if host.isascii():
        return host
    try:
        import idna

        return idna.encode(host, uts46=True).decode()
    except ImportError:
        hint = "pip install idna, or write it in ASCII, as `xn--…`"
        raise StartError(f"the host name {host!r} needs one more package: {hint}") from None
    except UnicodeError as error:
        raise StartError(f"{host!r} cannot be the name of a host: {error}") from None


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise StartError(f"not a URL: {error}") from None
    if parts.scheme not in _PLAIN or not parts.hostname:
        raise StartError("the URL of an agent begins with ws://, wss://, http:// or https:// and names a host")
    return parts


def _sendable(token: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise StartError("a token consists of visible ASCII characters")
    return token


def is_address(host: str) -> bool:
    """Return whether a host is an IP address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
