"""What every transport is: frames in, frames out, an end, and nothing else.

A frame is `bytes`: one JSON text without its line end. Writing never waits, so that the reader of a connection can
always answer; whoever can wait asks `is_congested` after sending and awaits `drain()`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

__all__ = ["Servable", "Transport"]


class Transport(ABC):
    """Both directions of one connection. Enter it before use; leaving it closes it and frees all it holds."""

    is_congested: bool = False
    """More is queued than the other side takes without delay; be kind and await `drain()` before sending more."""

    on_frames: Callable[[list[bytes]], bool] | None = None
    """Asked to take frames the moment they arrive, by transports that can: it takes them all, or says no and they wait
    for `receive`. It saves a turn of the event loop, no more; a transport need not ask."""

    @property
    @abstractmethod
    def pending_bytes(self) -> int:
        """Bytes accepted by `send` that have not left this transport yet."""

    @abstractmethod
    async def receive(self) -> list[bytes]:
        """All frames that have arrived, at least one; an empty list means that no more will come.

        Raises:
            ConnectionLost: The connection broke rather than ended.
            MessageTooLarge: A message went so far over the limit that nothing more can be read.
        """

    @abstractmethod
    def send(self, frame: bytes) -> None:
        """Queue one frame; what is sent in one turn of the event loop is written together.

        Raises:
            ConnectionLost: The other side takes nothing any more. What it sent may still be received.
        """

    @abstractmethod
    async def drain(self) -> None:
        """Wait until the transport is no longer congested.

        Raises:
            ConnectionLost: It never will be.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Flush what can be flushed without waiting long, then end. A second call does nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Servable(Protocol):
    """Something that can talk on a transport until it ends: an agent object, or a relay to one."""

    async def serve(self, transport: Transport) -> None: ...
