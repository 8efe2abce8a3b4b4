"""The cookies of one connection: a load balancer may need them, and no other server gets them."""

from __future__ import annotations

from collections.abc import Iterable
from email.message import Message
from http.cookiejar import Cookie, CookieJar
from urllib.request import Request

MAX_COOKIES = 64
"""For one connection; sticky routing needs one or two."""

MAX_COOKIE_BYTES = 4096
"""Name and value of one cookie, as in browsers."""


class BoundedCookieJar(CookieJar):
    """Store a few small cookies of one host until the connection ends."""

    def set_cookie(self, cookie: Cookie) -> None:
        """Store a cookie, unless it is too large or one too many."""
        size = len(cookie.name) + len(cookie.value or "")
        if size <= MAX_COOKIE_BYTES and (len(self) < MAX_COOKIES or self._has(cookie)):
            super().set_cookie(cookie)

    def _has(self, cookie: Cookie) -> bool:
        return any((each.domain, each.path, each.name) == (cookie.domain, cookie.path, cookie.name) for each in self)

    def store(self, url: str, values: Iterable[str]) -> None:
        """Store the cookies of `Set-Cookie` headers."""
        answer = _CookieResponse(values)
        self.extract_cookies(answer, _request(url))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] # the jar calls `info()` only

    def header_for(self, url: str) -> str | None:
        """Return the `Cookie` header for a request."""
        request = _request(url)
        self.add_cookie_header(request)
        return request.get_header("Cookie")


class _CookieResponse:
    """The part of a response that a cookie jar reads."""

    def __init__(self, values: Iterable[str]) -> None:
        self._headers = Message()
        for value in values:
            self._headers["Set-Cookie"] = value

    def info(self) -> Message:
        return self._headers


def _request(url: str) -> Request:
    return Request(url)  # noqa: S310  # only the jar reads it
