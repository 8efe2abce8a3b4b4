"""The host that a browser opens for a URL; URLs that programs read differently are rejected."""

from __future__ import annotations

import ipaddress
import re
import unicodedata

_WEB_URL = re.compile(
    r"https?://(?:[^/?#@]*@)?(?P<host>\[[0-9a-f:.]+\]|[^/?#@:\[\]]+)(?::[0-9]{1,5})?(?:[/?#].*)?", re.IGNORECASE
)
_HOST_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def host_of(url: str) -> str:
    r"""Return the host that a browser opens for an `http` or `https` URL, in ASCII: look-alike letters become visible.

    Browsers repair malformed URLs (they read `\` as `/`, drop tabs and line breaks, decode `%2e`, read `0x7f.1` as
    `127.0.0.1`), and other programs do not. A URL that could be read in two ways is rejected.

    Raises:
        ValueError: The URL is not `http` or `https`, has no host, or has one that programs read differently.
    """
    if "\\" in url or any(character.isspace() or unicodedata.category(character) == "Cc" for character in url):
        raise ValueError("the URL contains a backslash, whitespace or a control character; percent-encode it")
    found = _WEB_URL.fullmatch(url)
    if found is None:
        raise ValueError("the URL is not of the form https://host/path (or http)")
    host = found["host"].lower()
    try:
        return str(ipaddress.IPv6Address(host[1:-1])) if host.startswith("[") else _checked(_ascii(host))
    except ValueError as error:
        raise ValueError(f"the host of the URL may be read in several ways: {host!r}: {error}") from error


def _checked(host: str) -> str:
    if _HOST_NAME.fullmatch(host) is None:
        raise ValueError("not a plain name")
    is_number = _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]) is not None
    return str(ipaddress.IPv4Address(host)) if is_number else host


def _ascii(host: str) -> str:
    """Return the host as it is looked up in DNS, if IDNA 2003 and IDNA 2008 agree on it."""
    if host.isascii():
        return host
    old = host.encode("idna").decode()
    labels = unicodedata.normalize("NFC", host).split(".")
    new = ".".join(each if each.isascii() else f"xn--{each.encode('punycode').decode()}" for each in labels)
    if old != new:
        raise ValueError(f"write it as {old!r} or {new!r}")
    return new
