"""Commands that send a lot, slowly or at once, and content that is not text."""

from __future__ import annotations

import asyncio
import base64
import math
import struct
import zlib

from duologue import Turn
from duologue.builtin.knobs import Knobs
from duologue.builtin.registry import command
from duologue.conversation.content import AudioContent, ImageContent, Resource

__all__ = ["number_in"]

SLOW_SECONDS = 10.0
"""How long `/slow` lasts at least."""


def number_in(argument: str, default: int, most: int) -> int:
    """The number a command was given, within reason."""
    digits = argument.strip().replace("_", "").replace(",", "")
    return min(int(digits), most) if digits.isdigit() else default


@command("stream", "Send N message chunks", shows="message chunks, back-pressure", hint="N")
async def stream(turn: Turn[Knobs], argument: str) -> None:
    """Exactly N of them."""
    for number in range(number_in(argument, 100, 10_000_000)):
        await turn.say(f"{number} ")


@command("slow", "Take ten seconds", shows="cancellation")
async def slow(turn: Turn[Knobs], argument: str) -> None:
    """At least ten seconds, unless cancelled."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SLOW_SECONDS
    while (left := until - loop.time()) > 0:
        await turn.say(f"{math.ceil(left)} … ")
        await asyncio.sleep(min(1.0, left))
    await turn.say("done.\n")


@command("big", "Send one chunk of N bytes", shows="large messages", hint="N")
async def big(turn: Turn[Knobs], argument: str) -> None:
    """One long line of one letter."""
    await turn.say("x" * number_in(argument, 1_000_000, 30_000_000))


@command("image", "Send a picture", shows="image content")
async def image(turn: Turn[Knobs], argument: str) -> None:
    """A small one, painted here."""
    await turn.say(ImageContent(base64.b64encode(_picture()).decode(), "image/png", "duologue:example.png"))
    await turn.say("That was a picture of 64 by 64 points.\n")


@command("audio", "Send a sound", shows="audio content")
async def audio(turn: Turn[Knobs], argument: str) -> None:
    """A quarter of a second of 440 Hz."""
    await turn.say(AudioContent(base64.b64encode(_sound()).decode(), "audio/wav"))
    await turn.say("That was the note the orchestra tunes to.\n")


@command("resource", "Send an embedded resource", shows="embedded resources, text and blob")
async def resource(turn: Turn[Knobs], argument: str) -> None:
    """One of each kind."""
    await turn.say(Resource(uri="duologue:example.md", text="# Embedded\n", mime_type="text/markdown"))
    await turn.say(
        Resource(uri="duologue:example.png", blob=base64.b64encode(_picture()).decode(), mime_type="image/png")
    )


def _picture(size: int = 64) -> bytes:
    """A PNG with a gradient; the format is simple enough to write by hand."""
    rows = b"".join(
        b"\0" + bytes(value for x in range(size) for value in (4 * x, 4 * y, 255 - 2 * (x + y))) for y in range(size)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _sound(rate: int = 8000, seconds: float = 0.25) -> bytes:
    """A WAV of one tone."""
    samples = b"".join(
        struct.pack("<h", int(12_000 * math.sin(2 * math.pi * 440 * n / rate))) for n in range(int(rate * seconds))
    )
    shape = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    return (
        struct.pack("<4sI4s4sI", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", len(shape))
        + shape
        + struct.pack("<4sI", b"data", len(samples))
        + samples
    )
