"""Observers of frames: recorders, tracers, the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, TypeAlias

__all__ = ["Direction", "FrameObserver", "notify_observers"]

_log = logging.getLogger("duologue.runtime")

Direction: TypeAlias = Literal["in", "out"]
FrameObserver: TypeAlias = Callable[[Direction, bytes], None]
"""Sees every frame as it passes. It must be quick; what it raises is logged and changes nothing."""


def notify_observers(observers: tuple[FrameObserver, ...], direction: Direction, frame: bytes) -> None:
    """Let every observer see a frame."""
    for tap in observers:
        try:
            tap(direction, frame)
        except Exception:
            _log.exception("an observer of frames failed")
