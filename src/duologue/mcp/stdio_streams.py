"""The two ends of a connection as the SDK wants them, and a watch on what comes in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from duologue.conversation.content import JsonObject

__all__ = ["Incoming", "Outgoing", "Reader", "Watched", "Writer", "whole_result"]

_WHOLE = "duologue/whole"


class Incoming(Protocol):
    """Where messages come from."""

    async def receive(self) -> SessionMessage | Exception:
        """The next message; an `Exception` stands for one that could not be read.

        Raises:
            EndOfStream: No more will come.
        """
        ...


class Outgoing(Protocol):
    """Where messages go to, as the SDK wants it."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message, and wait while the other side is slow.

        Raises:
            BrokenResourceError: The other side takes nothing any more.
        """
        ...

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None: ...


class _Stream:
    """A stream that holds nothing of its own: what is behind it is closed by whoever opened it."""

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class Writer(_Stream, ABC):
    """What the SDK writes to. A subclass says where it goes."""

    @abstractmethod
    async def send(self, item: SessionMessage, /) -> None: ...


class Reader(_Stream, ABC):
    """What the SDK reads from. A subclass says where it comes from."""

    @abstractmethod
    async def receive(self) -> SessionMessage | Exception: ...

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class Watched(Reader):
    """What a server says on its way to the SDK: its end is noticed, and the results of its tools are kept whole.

    The SDK's models drop the fields they do not know and refuse content of a kind they do not know. So the content
    travels around them: the SDK sees a result without any, and the whole of it among the result's metadata.

    Args:
        incoming: Where the messages come from.
        on_end: Called once nothing more will come.
    """

    def __init__(self, incoming: Incoming, on_end: Callable[[], None]) -> None:
        self._incoming = incoming
        self._on_end = on_end
        self._scope: anyio.CancelScope | None = None

    def end(self) -> None:
        """Nothing more is to come, whatever the server thinks; whoever waits for an answer is told at once."""
        self._on_end()
        if self._scope is not None:
            self._scope.cancel()

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._receive()
        except BaseException:
            # Also when we are cancelled: the SDK does that only to end.
            self._on_end()
            raise
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            item.message.result = _keep_whole(item.message.result)
        return item

    async def _receive(self) -> SessionMessage | Exception:
        with anyio.CancelScope() as self._scope:
            return await self._incoming.receive()
        raise anyio.EndOfStream


def _keep_whole(result: JsonObject) -> JsonObject:
    if not isinstance(result.get("content"), list):
        return result
    return {**result, "content": [], "_meta": {_WHOLE: result}}


def whole_result(meta: dict[str, Any] | None) -> JsonObject | None:
    """The result as the server sent it, from the metadata of what the SDK made of it."""
    return (meta or {}).get(_WHOLE)
