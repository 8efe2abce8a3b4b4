"""Observers of frames: recorders, tracers, the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, TypeAlias

_log = logging.getLogger("duologue.runtime")

Direction: TypeAlias = Literal["in", "out"]
FrameObserver: TypeAlias = Callable[[Direction, bytes], None]
"""Called with every frame that is sent or received. It must be fast; an exception is logged and ignored."""


def notify_observers(observers: tuple[FrameObserver, ...], direction: Direction, frame: bytes) -> None:
    """Call every observer with a frame."""
    for observer in observers:
        try:
            observer(direction, frame)
        except Exception:
            _log.exception("a frame observer failed")
