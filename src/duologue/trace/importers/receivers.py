"""Find out who receives a message, for logs that do not say it: by its method, or by the request that it answers."""

from __future__ import annotations

from typing import Any

from duologue.recording.format import FrameDirection
from duologue.schema import v1, v2

MAX_OPEN_REQUESTS = 100_000
"""Requests that are remembered until their responses come."""

_OPPOSITE: dict[FrameDirection, FrameDirection] = {"to_agent": "to_client", "to_client": "to_agent"}


def _receivers() -> dict[str, FrameDirection]:
    schemas: tuple[Any, ...] = (v2, v1)
    methods = [each for schema in schemas for each in (*schema.METHODS.values(), *schema.NOTIFICATIONS.values())]
    return {
        method.name: "to_agent" if method.side == "agent" else "to_client"
        for method in methods
        if method.side in ("agent", "client")
    }


class Receivers:
    """Remembers the open requests of one log."""

    def __init__(self) -> None:
        self._of_method = _receivers()
        self._open: dict[int | str | None, list[FrameDirection]] = {}

    def of_method(self, method: str) -> FrameDirection | None:
        """Return who receives this method; None if either side may, or it is not known."""
        return self._of_method.get(method)

    def of_message(self, method: str | None, id_: int | str | None) -> FrameDirection | None:
        """Return who receives a message; None if that is not known.

        If both sides wait for a response with this id, the later request is meant.
        """
        if method is None:
            waiting = self._open.get(id_)
            if not waiting:
                return None
            asked = waiting.pop()
            if not waiting:
                del self._open[id_]
            return _OPPOSITE[asked]
        receiver = self._of_method.get(method)
        if receiver is not None and id_ is not None and len(self._open) < MAX_OPEN_REQUESTS:
            self._open.setdefault(id_, []).append(receiver)
        return receiver
