"""The interface of every transport.

A frame is `bytes`: one JSON text without its line end. `send` never waits, so that the reader of a connection can
always answer; a producer that can wait checks `is_congested` after sending and awaits `drain()`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self


class Transport(ABC):
    """Both directions of one connection. Enter it before use; leaving it closes it and frees all it holds."""

    is_congested: bool = False
    """More output waits than the peer reads without delay; await `drain()` before sending more."""

    on_frames: Callable[[list[bytes]], bool] | None = None
    """Called with frames the moment they arrive, by transports that can: it processes all of them and returns `True`,
    or returns `False` and they wait for `receive`. It saves one iteration of the event loop; calling it is optional."""

    @property
    @abstractmethod
    def pending_bytes(self) -> int:
        """Bytes accepted by `send` that have not left this transport yet."""

    @abstractmethod
    async def receive(self) -> list[bytes]:
        """Return all frames that have arrived, at least one; an empty list means that no further frame will come.

        Raises:
            ConnectionLost: The connection broke rather than ended.
            MessageTooLarge: A message went so far over the limit that nothing more can be read.
        """

    @abstractmethod
    def send(self, frame: bytes) -> None:
        """Queue one frame; what is sent in one iteration of the event loop is written together.

        Raises:
            ConnectionLost: The peer no longer reads. What it sent may still be received.
        """

    def send_many(self, frames: list[bytes]) -> None:
        """Queue frames in order, as `send` does.

        Raises:
            ConnectionLost: The peer no longer reads. Some of them may have been queued.
        """
        for frame in frames:
            self.send(frame)

    def send_notifications(self, frames: list[bytes]) -> None:
        """Queue frames of which `are_notifications` is true, so that they need not be parsed, as `send_many` does.

        Raises:
            ConnectionLost: The peer no longer reads. Some of them may have been queued.
        """
        self.send_many(frames)

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


class WrappedTransport(Transport):
    """Forward everything to another transport; a subclass overrides what it changes.

    Args:
        inner: The transport that does the work; it is entered and closed with this one.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    @property
    def is_congested(self) -> bool:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride] # a property here: it is derived
        return self._inner.is_congested

    @property
    def pending_bytes(self) -> int:
        return self._inner.pending_bytes

    async def receive(self) -> list[bytes]:
        return await self._inner.receive()

    def send(self, frame: bytes) -> None:
        self._inner.send(frame)

    async def drain(self) -> None:
        await self._inner.drain()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self


class Servable(Protocol):
    """An agent, or a relay to one, that communicates on a transport until it ends."""

    async def serve(self, transport: Transport) -> None: ...
