"""Which hosts a session's MCP servers may be on, decided by address and not by name.

scheme         http and https; a file is no server
link-local     refused: nothing serves MCP there, and clouds hand out credentials there
private, loopback and the like
               as the user says: without a list of hosts whatever the session names is meant; with one, only these
elsewhere      allowed; redirects to another origin are never followed
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection
from typing import TypeAlias
from urllib.parse import urlsplit

from duologue.errors import StartError

__all__ = ["Address", "check_address", "check_url", "resolve"]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

PORTS = {"http": 80, "https": 443}


async def check_url(url: str, allow_hosts: Collection[str] | None) -> None:
    """Whether a server's address may be used.

    Raises:
        StartError: It may not; the message says why.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise StartError(f"not an address: {url!r}: {error}") from error
    if parts.scheme not in PORTS:
        raise StartError(f"not an http or https address: {url!r}")
    if not host:
        raise StartError(f"an address without a host: {url!r}")
    if allow_hosts is not None and host in allow_hosts:
        return
    for address in await resolve(host, port or PORTS[parts.scheme]):
        check_address(host, address, allow_hosts)


def check_address(host: str, address: Address, allow_hosts: Collection[str] | None) -> None:
    """Whether a host may be reached at this address of it.

    Raises:
        StartError: It may not.
    """
    if allow_hosts is not None and host in allow_hosts:
        return
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_link_local:
        raise StartError(f"{host} is at {address}, a link-local address; allow it by name if it is meant")
    if allow_hosts is not None and not address.is_global:
        raise StartError(f"{host} is at {address}, a private address; allow it by name if it is meant")


async def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host, best first; none if nobody here knows it, for a proxy might."""
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    # A scope (`fe80::1%eth0`) is no part of the address itself.
    return [ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in found]
