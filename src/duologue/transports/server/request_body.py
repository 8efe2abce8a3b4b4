"""Read the body of a request within the limits of the server."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope

from duologue.transports.server.auth import Headers, RequestRejected
from duologue.transports.server.limits import Limits


async def read_body(scope: Scope, receive: Receive, limits: Limits) -> bytes:
    """Return the whole body.

    Raises:
        RequestRejected: It is too long, takes too long to arrive, or is cut off.
    """
    limit = limits.message_bytes
    for length in Headers(scope).all(b"content-length"):
        if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > limit):
            raise RequestRejected(413, f"a message has at most {limit} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestRejected(400, "the message was cut off")
                body += message.get("body", b"")
                if len(body) > limit:
                    raise RequestRejected(413, f"a message has at most {limit} bytes")
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise RequestRejected(408, "the message took too long to arrive") from None
