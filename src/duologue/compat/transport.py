"""A transport whose peer speaks an older dialect, looking like any other transport."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from duologue.compat.normaliser import Normaliser
from duologue.transports.base import Transport

__all__ = ["NormalisedTransport"]


class NormalisedTransport(Transport):
    """Another transport with a normaliser in front; it opens and closes with this one.

    Args:
        inner: The transport that reaches the peer; not entered yet.
        normaliser: Made for this connection alone, for it remembers requests.
    """

    def __init__(self, inner: Transport, normaliser: Normaliser) -> None:
        self._inner = inner
        self._normaliser = normaliser

    @property
    def is_congested(self) -> bool:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride] # the inner one knows, at any moment
        return self._inner.is_congested

    @property
    def queued(self) -> int:
        return self._inner.queued

    async def receive(self) -> list[bytes]:
        while arrived := await self._inner.receive():
            # An update that says nothing leaves no frame, and an empty list would mean the end.
            if frames := [frame for one in arrived for frame in self._normaliser.incoming(one)]:
                return frames
        return []

    def send(self, frame: bytes) -> None:
        for written in self._normaliser.outgoing(frame):
            self._inner.send(written)

    async def drain(self) -> None:
        await self._inner.drain()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)
