"""Streams for the SDK to an MCP server that runs in the client, carried over ACP by the request `mcp/message`.

Each MCP request is one such request with its own id, which the client's notifications about it repeat. There is no
handshake and no state: only MCP 2026-07-28 is carried, whose requests name the version and the caller's capabilities in
their `_meta`; the SDK adds that. Cancelling an MCP request cancels the ACP request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from duologue.conversation.content import JsonObject
from duologue.errors import ConnectionLost, DuologueError, RequestError
from duologue.mcp.acp_channel import AcpChannel, SendMessage
from duologue.mcp.stdio_streams import Reader, Writer

_ids = count(1)
"""Process-wide: an id must not be active twice for one server, whichever session uses it."""


@asynccontextmanager
async def acp_streams(server_id: str, channel: AcpChannel) -> AsyncGenerator[tuple[Reader, Writer]]:
    """Open the streams to a server in the client."""
    async with asyncio.TaskGroup() as group:
        ends = _Ends(server_id, channel.send, group)
        with channel.route(server_id, ends.deliver):
            yield ends.reader, ends
        ends.cancel_all()


class _Ends(Writer):
    def __init__(self, server_id: str, send: SendMessage, group: asyncio.TaskGroup) -> None:
        self._server_id = server_id
        self._send = send
        self._group = group
        self._calls: dict[RequestId, asyncio.Task[None]] = {}
        self._active: set[str] = set()
        self._arrived: asyncio.Queue[JSONRPCMessage | None] = asyncio.Queue()
        self.reader = _Answers(self._arrived)

    async def send(self, item: SessionMessage) -> None:
        """Handle a message of the SDK; of its notifications only the cancellation of a request is carried."""
        match message := item.message:
            case JSONRPCRequest():
                self._calls[message.id] = self._group.create_task(self._forward(message))
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": int() | str() as id}):
                if (call := self._calls.get(id)) is not None:
                    call.cancel()
            case _:
                pass

    def deliver(self, request_id: str, method: str, params: JsonObject | None) -> None:
        """Pass a notification about an active request to the SDK; any other is late and ignored."""
        if request_id in self._active:
            self._arrived.put_nowait(JSONRPCNotification(jsonrpc="2.0", method=method, params=params))

    def cancel_all(self) -> None:
        for call in self._calls.values():
            call.cancel()

    async def _forward(self, request: JSONRPCRequest) -> None:
        # A string is the id of a subscription, which the server repeats; numbers restart with every connection.
        request_id = request.id if isinstance(request.id, str) else f"mcp-{next(_ids)}"
        self._active.add(request_id)
        try:
            inner = await self._send(self._server_id, request_id, request.method, request.params)
            answer = _read_response(request.id, inner)
        except ConnectionLost:
            self._arrived.put_nowait(None)
            return
        except RequestError as error:
            answer = _failed(request.id, error.code, str(error), error.data)
        except DuologueError as error:
            answer = _failed(request.id, INTERNAL_ERROR, str(error))
        finally:
            self._active.discard(request_id)
            del self._calls[request.id]
        self._arrived.put_nowait(answer)


class _Answers(Reader):
    def __init__(self, arrived: asyncio.Queue[JSONRPCMessage | None]) -> None:
        self._arrived = arrived

    async def receive(self) -> SessionMessage | Exception:
        if (message := await self._arrived.get()) is None:
            raise anyio.EndOfStream
        return SessionMessage(message)


def _read_response(id: RequestId, inner: JsonObject) -> JSONRPCMessage:
    """Return the inner response; if it has a result, other fields are ignored."""
    match inner:
        case {"result": dict()}:
            return JSONRPCResponse(jsonrpc="2.0", id=id, result=inner["result"])
        case {"error": {"code": int(code), "message": str(message)} as error}:
            return _failed(id, code, message, error.get("data"))
        case _:
            return _failed(id, INTERNAL_ERROR, "the client's response has neither a result nor an error")


def _failed(id: RequestId, code: int, message: str, data: Any = None) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=message, data=data))
