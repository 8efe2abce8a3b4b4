"""What the log says about frames: direction, method, id, size and duration. Never parameters, never a secret."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.sanitize import quote

__all__ = ["FrameLog", "is_wanted"]

_log = logging.getLogger("duologue.wire")
_KEPT = 4096
"""Open requests whose start is remembered for the duration; older ones are logged without."""


class _Outline(Struct):
    id: int | str | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_Request: TypeAlias = tuple[str, int | str | None | UnsetType]
"""The direction and the id of a request."""

_decode = msgspec.json.Decoder(_Outline).decode


def is_wanted() -> bool:
    """Whether anybody asked for frames to be logged."""
    return _log.isEnabledFor(logging.DEBUG)


class FrameLog:
    """An observer of frames that writes one DEBUG line for each."""

    def __init__(self) -> None:
        self._started: OrderedDict[_Request, float] = OrderedDict()

    def __call__(self, direction: str, frame: bytes) -> None:
        arrow = "->" if direction == "out" else "<-"
        try:
            outline = _decode(frame)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            _log.debug("%s not a message, %d bytes", arrow, len(frame))
            return
        if outline.method is not UNSET:
            if outline.id is not UNSET:
                self._remember((direction, outline.id))
            id = "" if outline.id is UNSET else f" id={quote(outline.id)}"
            _log.debug("%s %s%s, %d bytes", arrow, quote(outline.method), id, len(frame))
            return
        started = self._started.pop(("in" if direction == "out" else "out", outline.id), None)
        took = "" if started is None else f", {(time.monotonic() - started) * 1000:.1f} ms"
        kind = "result" if outline.error is UNSET else "error"
        _log.debug("%s %s id=%s, %d bytes%s", arrow, kind, quote(outline.id), len(frame), took)

    def _remember(self, key: _Request) -> None:
        self._started[key] = time.monotonic()
        if len(self._started) > _KEPT:
            self._started.popitem(last=False)
