"""A gate that requires a token, and a load balancer that sets a cookie, in front of a server."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

COOKIE = b"lane=7"


def gated(app: Callable[[Any, Any, Any], Awaitable[None]]) -> Callable[[Any, Any, Any], Awaitable[None]]:
    """Wrap an application: require the token, and later the cookie that was set."""

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        is_first = b"acp-connection-id" not in headers
        status = _refusal(headers, is_first=is_first)
        if status is not None:
            kind = "http" if scope["type"] == "http" else "websocket.http"
            await send({"type": f"{kind}.response.start", "status": status, "headers": []})
            await send({"type": f"{kind}.response.body", "body": b""})
            return

        async def with_cookie(message: Any) -> None:
            if is_first and message["type"] in ("http.response.start", "websocket.accept"):
                cookie = (b"set-cookie", COOKIE + b"; Path=/; HttpOnly")
                message = {**message, "headers": [*message.get("headers", ()), cookie]}
            await send(message)

        await app(scope, receive, with_cookie)

    return checked


def _refusal(headers: dict[bytes, bytes], *, is_first: bool) -> int | None:
    if headers.get(b"authorization") != f"Bearer {os.environ['INTEROP_TOKEN']}".encode():
        return 401
    return None if is_first or COOKIE in headers.get(b"cookie", b"") else 403
