"""Observers of frames: recorders, tracers, the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, TypeAlias

__all__ = ["Direction", "Tap", "show"]

_log = logging.getLogger("duologue.runtime")

Direction: TypeAlias = Literal["in", "out"]
Tap: TypeAlias = Callable[[Direction, bytes], None]
"""Sees every frame as it passes. It must be quick; what it raises is logged and changes nothing."""


def show(taps: tuple[Tap, ...], direction: Direction, frame: bytes) -> None:
    """Let every observer see a frame."""
    for tap in taps:
        try:
            tap(direction, frame)
        except Exception:
            _log.exception("an observer of frames failed")
