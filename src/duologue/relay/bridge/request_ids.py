"""The numbers of requests: each connection has its own, and a question to the user may name the request it is about."""

from __future__ import annotations

from duologue.jsonrpc.envelope import read_envelope
from duologue.jsonrpc.messages import Id
from duologue.protocol.meta import current_request

__all__ = ["RequestIdMap"]

MOST = 1000
"""Requests that are remembered: questions are about those that have no answer yet."""


class RequestIdMap:
    """A tap on the connection to the agent: which request of the editor led to which request there."""

    def __init__(self) -> None:
        self._known: dict[Id, Id] = {}

    def __call__(self, direction: str, frame: bytes) -> None:
        if direction == "out":
            self._note(frame)

    def _note(self, frame: bytes) -> None:
        shape = read_envelope(frame)
        if shape is None or (id := shape.request_id) is None:
            return
        try:
            asked = current_request().id
        except LookupError:
            return  # nobody asked us to ask
        if asked is not None:
            self._known[id] = asked
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def of_editor(self, id: Id | None) -> Id | None:
        """The editor's number for a request that has this one at the agent; the same if it is none of the editor's."""
        return None if id is None else self._known.get(id, id)
