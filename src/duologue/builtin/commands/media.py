"""Commands that send an image, audio and embedded resources, all made here."""

from __future__ import annotations

import base64
import math
import struct
import zlib

from duologue import Turn
from duologue.builtin.settings import BuiltinSettings
from duologue.builtin.slash_command import command
from duologue.conversation.content import AudioContent, ImageContent, Resource


@command("image", "Send an image", shows="image content")
async def image(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send a small image."""
    await turn.say(ImageContent(_base64(_image()), "image/png", "duologue:example.png"))
    await turn.say("That was an image of 64 by 64 pixels.\n")


@command("audio", "Send audio", shows="audio content")
async def audio(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send a tone of 440 Hz, a quarter of a second long."""
    await turn.say(AudioContent(_base64(_audio()), "audio/wav"))
    await turn.say("That was the note an orchestra tunes to.\n")


@command("resource", "Send embedded resources", shows="embedded resources, text and blob")
async def resource(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send a text and a blob."""
    await turn.say(Resource(uri="duologue:example.md", text="# Embedded\n", mime_type="text/markdown"))
    await turn.say(Resource(uri="duologue:example.png", blob=_base64(_image()), mime_type="image/png"))


COMMANDS = (image, audio, resource)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _image(size: int = 64) -> bytes:
    """Return a PNG with a gradient; the format is simple enough to write by hand."""
    rows = b"".join(
        b"\0" + bytes(value for x in range(size) for value in (4 * x, 4 * y, 255 - 2 * (x + y))) for y in range(size)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _audio(rate: int = 8000, seconds: float = 0.25) -> bytes:
    """Return a WAV of one tone."""
    samples = b"".join(
        struct.pack("<h", int(12_000 * math.sin(2 * math.pi * 440 * n / rate))) for n in range(int(rate * seconds))
    )
    layout = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    return (
        struct.pack("<4sI4s4sI", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", len(layout))
        + layout
        + struct.pack("<4sI", b"data", len(samples))
        + samples
    )
