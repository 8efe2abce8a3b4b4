"""The pair of streams that the SDK uses, and a reader that notices the end of a connection."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from duologue.conversation.content import JsonObject

_WHOLE = "duologue/whole"


class Incoming(Protocol):
    """A stream to read messages from."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message; an `Exception` stands for one that could not be decoded.

        Raises:
            EndOfStream: The stream has ended.
        """
        ...


class Outgoing(Protocol):
    """A stream to write messages to, as the SDK requires it."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message, and wait while the other side is slow.

        Raises:
            BrokenResourceError: The other side is closed.
        """
        ...

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None: ...


class Writer(ObjectSendStream[SessionMessage]):
    """A stream that the SDK writes to; a subclass implements `send`."""

    async def aclose(self) -> None:
        """Do nothing: the code that opened the transport closes it."""


class Reader(ObjectReceiveStream[SessionMessage | Exception]):
    """A stream that the SDK reads from; a subclass implements `receive`."""

    async def aclose(self) -> None:
        """Do nothing: the code that opened the transport closes it."""


class Watched(Reader):
    """Passes messages of a server to the SDK, reports the end of the stream, and keeps results of tools complete.

    The SDK's models drop unknown fields and reject unknown content. So the SDK sees a result without content, and the
    complete result in its metadata.

    Args:
        incoming: The stream to read from.
        on_end: Called when the stream has ended.
    """

    def __init__(self, incoming: Incoming, on_end: Callable[[], None]) -> None:
        self._incoming = incoming
        self._on_end = on_end
        self._scope: anyio.CancelScope | None = None

    def end(self) -> None:
        """End the stream; requests that wait for a response fail at once."""
        self._on_end()
        if self._scope is not None:
            self._scope.cancel()

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._receive()
        except BaseException:
            # Also on cancellation: the SDK cancels the reader only to end.
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
    """Return the result as the server sent it, from the metadata of the SDK's result."""
    return (meta or {}).get(_WHOLE)
