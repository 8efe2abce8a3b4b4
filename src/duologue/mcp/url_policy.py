"""Decide by IP address, not by name, which URLs of MCP servers are allowed.

scheme         `http` and `https` only
link-local     rejected: no MCP server is there, but clouds serve credentials there
private, loopback and similar
               allowed without a list of hosts; with a list, only for these hosts
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

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

PORTS = {"http": 80, "https": 443}


async def check_url(url: str, allow_hosts: Collection[str] | None) -> None:
    """Check that the URL of a server is allowed.

    Raises:
        StartError: The URL is not allowed; the message says why.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise StartError(f"not a URL: {url!r}: {error}") from error
    if parts.scheme not in PORTS:
        raise StartError(f"not an http or https URL: {url!r}")
    if not host:
        raise StartError(f"a URL without a host: {url!r}")
    if allow_hosts is not None and host in allow_hosts:
        return
    for address in await resolve(host, port or PORTS[parts.scheme]):
        check_address(host, address, allow_hosts)


def check_address(host: str, address: Address, allow_hosts: Collection[str] | None) -> None:
    """Check that a host may be connected at this IP address.

    Raises:
        StartError: The address is not allowed.
    """
    if allow_hosts is not None and host in allow_hosts:
        return
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_link_local:
        raise StartError(f"{host} is at {address}, a link-local address; add the host to `allow_hosts` to allow it")
    if allow_hosts is not None and not address.is_global:
        raise StartError(f"{host} is at {address}, a private address; add the host to `allow_hosts` to allow it")


async def resolve(host: str, port: int) -> list[Address]:
    """Return the IP addresses of a host, best first; none if it cannot be resolved, as a proxy may resolve it."""
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    # A scope (`fe80::1%eth0`) is not part of the address itself.
    return [ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in found]
