"""Debug log of frames: direction, method, id, size and duration. Never parameters, never a secret."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.sanitize import quote

_log = logging.getLogger("duologue.wire")
_MAX_STARTED = 4096
"""Open requests whose start is remembered for the duration; older ones are logged without."""


class _LoggedEnvelope(Struct):
    id: int | str | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_Request: TypeAlias = tuple[str, int | str | None | UnsetType]
"""The direction and the id of a request."""

_decode = msgspec.json.Decoder(_LoggedEnvelope).decode


def is_enabled() -> bool:
    """Return True if the log level asks for frames."""
    return _log.isEnabledFor(logging.DEBUG)


class FrameLog:
    """An observer of frames that writes one DEBUG line for each."""

    def __init__(self) -> None:
        self._started: OrderedDict[_Request, float] = OrderedDict()

    def __call__(self, direction: str, frame: bytes) -> None:
        arrow = "->" if direction == "out" else "<-"
        try:
            envelope = _decode(frame)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            _log.debug("%s not a message, %d bytes", arrow, len(frame))
            return
        if envelope.method is not UNSET:
            if envelope.id is not UNSET:
                self._remember((direction, envelope.id))
            id = "" if envelope.id is UNSET else f" id={quote(envelope.id)}"
            _log.debug("%s %s%s, %d bytes", arrow, quote(envelope.method), id, len(frame))
            return
        started = self._started.pop(("in" if direction == "out" else "out", envelope.id), None)
        took = "" if started is None else f", {(time.monotonic() - started) * 1000:.1f} ms"
        kind = "result" if envelope.error is UNSET else "error"
        _log.debug("%s %s id=%s, %d bytes%s", arrow, kind, quote(envelope.id), len(frame), took)

    def _remember(self, key: _Request) -> None:
        self._started[key] = time.monotonic()
        if len(self._started) > _MAX_STARTED:
            self._started.popitem(last=False)
