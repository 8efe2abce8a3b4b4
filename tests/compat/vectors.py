"""The golden vectors of the seed dialects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import msgspec

from duologue.compat.normaliser import Normaliser

WIRE = Path(__file__).parents[1] / "wire"

Direction = Literal["incoming", "outgoing"]


class Given(msgspec.Struct, forbid_unknown_fields=True):
    """An earlier frame."""

    direction: Direction
    frame: dict[str, Any]


class Vector(msgspec.Struct, forbid_unknown_fields=True):
    """One rewrite: the frame before and the frames after it, and where the other form is documented.

    Attributes:
        loses: Why reading back what was written does not give the same again.
    """

    name: str
    rule: str
    source: str
    dialect: Literal["seed-003", "seed-004"] | None
    side: Literal["agent", "client"]
    direction: Direction
    before: dict[str, Any]
    after: list[dict[str, Any]]
    given: list[Given] = []
    options: dict[str, Any] = {}
    loses: str = ""

    def normaliser(self) -> Normaliser:
        """Return a normaliser that has processed the earlier messages."""
        options = dict(self.options)
        if "credentials" in options:
            options["credentials"] = options["credentials"].get
        made = Normaliser(self.dialect, self.side, **options)
        for given in self.given:
            play(made, given.direction, given.frame)
        return made


def load_vectors() -> list[Vector]:
    return [
        vector
        for path in sorted((WIRE / "compat").glob("*.json"))
        for vector in msgspec.json.decode(path.read_bytes(), type=list[Vector])
    ]


def frame_of(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


def play(normaliser: Normaliser, direction: Direction, message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages that this message is rewritten to."""
    frames = getattr(normaliser, direction)(frame_of(message))
    return [json.loads(frame) for frame in frames]
