"""Small programs that play the other end."""

from __future__ import annotations

import hashlib
import sys
from textwrap import dedent

from duologue.jsonrpc.framing import Oversized


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", dedent(code), *arguments]


def shell(script: str) -> list[str]:
    return ["sh", "-c", dedent(script)]


def summary(frame: bytes) -> bytes:
    """Summarize a frame in one short line."""
    size = frame.size if isinstance(frame, Oversized) else len(frame)
    return f"{type(frame).__name__} {size} {hashlib.sha256(frame).hexdigest()}".encode()


def reporter(max_message_bytes: int) -> list[str]:
    """Answer every frame with its summary."""
    return python(
        f"""
        import asyncio
        from duologue.errors import MessageTooLarge
        from duologue.transports.stdio.stdio import StdioTransport
        from tests.transports.programs import summary

        async def main():
            async with StdioTransport(max_message_bytes={max_message_bytes}) as wire:
                try:
                    while frames := await wire.receive():
                        for frame in frames:
                            wire.send(summary(frame))
                except MessageTooLarge:
                    wire.send(b"MessageTooLarge")

        asyncio.run(main())
        """
    )


ECHO = python(
    """
    import asyncio
    from duologue.transports.stdio.stdio import StdioTransport

    async def main():
        async with StdioTransport() as wire:
            while frames := await wire.receive():
                for frame in frames:
                    wire.send(frame)

    asyncio.run(main())
    """
)
