"""Errors of servers that cannot be reached or reject the client: the cause, its code, and what to do next."""

from __future__ import annotations

import errno
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from duologue.errors import ConnectError

_ERRNO = re.compile(r"\[Errno (\d+)\]")

_CAUSES = {
    errno.ECONNREFUSED: (
        "connection refused",
        "start the server, or correct the port: `duologue serve` prints its URL",
    ),
    errno.ETIMEDOUT: ("no answer in time", "check the host, the port and the firewall"),
    errno.EHOSTUNREACH: ("there is no route to the host", "check the network or the VPN"),
    errno.ENETUNREACH: ("there is no route to its network", "check the network or the VPN"),
    errno.ECONNRESET: (
        "the server closed the connection",
        "check the port; a server with TLS needs wss:// or https://",
    ),
}

_CERTIFICATE_STEPS = {
    10: "the server needs a new certificate",
    62: "use a host name that is in the certificate",
}
_UNTRUSTED_STEP = "if you trust it, pass the certificate of its authority (`--ca FILE`, `tls=`)"

_STATUS_STEPS = {
    401: "pass a valid token (`--token`, DUOLOGUE_TOKEN, `token=`)",
    403: "ask the owner of the server for access: the token, the host name or the origin is not allowed",
    404: "correct the path of the URL; `duologue serve` listens at /acp",
    407: "pass the user and password of the proxy in its URL",
    429: "wait a minute before the next attempt",
}
_PROXY_STEP = "correct http_proxy, https_proxy or all_proxy, or name the host in no_proxy"
_NO_AGENT_STEP = "check the URL; one that `duologue serve` prints begins with ws:// and ends with /acp"
_SERVER_STEP = "try again later, or read the log of the server"


def rejected(url: str, status: int, headers: Mapping[str, str]) -> ConnectError:
    """Return the error for a server that does not answer as an agent does."""
    location = headers.get("location")
    if location is not None:
        step = f"it redirects to {location[:200]}, which is not followed: use that URL if you trust it"
    elif status < 300 or status in (400, 405, 426):
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        answer = "a web page" if kind == "text/html" else "something else than ACP"
        return ConnectError(f"{url} answers with {answer}: HTTP {status}", status=status, next_step=_NO_AGENT_STEP)
    else:
        step = _STATUS_STEPS.get(status, _SERVER_STEP if status >= 500 else _NO_AGENT_STEP)
    return ConnectError(f"{url} rejects the client: HTTP {status}", status=status, next_step=step)


def unreachable(url: str, error: BaseException) -> ConnectError:
    """Return the error for a server that cannot be reached."""
    for reason in _chain(error):
        if isinstance(reason, ssl.SSLCertVerificationError):
            step = _CERTIFICATE_STEPS.get(reason.verify_code, _UNTRUSTED_STEP)
            message = f"the certificate of {url} is not valid: {reason.verify_message} (code {reason.verify_code})"
            return ConnectError(message, next_step=step)
    cause, step = _cause(error)
    if (proxy := _proxy_of(url)) is not None:
        return ConnectError(f"cannot reach {url} through the proxy {proxy}: {cause}", next_step=_PROXY_STEP)
    return ConnectError(f"cannot reach {url}: {cause}", next_step=step)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it."""
    reason: BaseException | None = error
    while reason is not None:
        yield reason
        reason = reason.__cause__ or reason.__context__


def _cause(error: BaseException) -> tuple[str, str]:
    """Return the cause with its code, and what to do next."""
    for reason in _chain(error):
        if isinstance(reason, ssl.SSLError):
            cause = f"no TLS connection ({reason.reason or type(reason).__name__})"
            return cause, "a server without TLS needs ws:// or http://"
        if isinstance(reason, socket.gaierror):
            return f"{reason.strerror} (code {reason.errno})", "correct the host name, or check the network"
        if isinstance(reason, TimeoutError):
            return _known(errno.ETIMEDOUT)
        if isinstance(reason, OSError) and (number := _number(reason)) in _CAUSES:
            return _known(number)
        if isinstance(reason, EOFError):
            return _known(errno.ECONNRESET)
    return str(error) or type(error).__name__, _NO_AGENT_STEP


def _known(number: int) -> tuple[str, str]:
    cause, step = _CAUSES[number]
    return f"{cause} ({errno.errorcode[number]})", step


def _number(error: OSError) -> int:
    """Return the number of an error; asyncio combines those of several addresses of a host into one text."""
    found = _ERRNO.search(str(error))
    return error.errno or (int(found[1]) if found else 0)


def _proxy_of(url: str) -> str | None:
    """Return the host and port of the proxy that the environment names for a URL."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get("https" if parts.scheme in ("wss", "https") else "http") or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc) or proxy_bypass(parts.hostname or ""):
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}").netloc.rpartition("@")[2]
