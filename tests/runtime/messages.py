"""Messages for two connections: the runtime is tested without any version of the protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from duologue.runtime.connection import MAX_INCOMING_BYTES, Connection
from duologue.runtime.handlers import Handlers
from duologue.schema.base import Method, Model, Notification
from duologue.transports.memory import memory_pair


class Nothing(Model, frozen=True, kw_only=True):
    pass


class Ping(Model, frozen=True, kw_only=True):
    text: str = ""


class Scoped(Model, frozen=True, kw_only=True):
    session_id: str


class Update(Model, frozen=True, kw_only=True):
    session_id: str
    text: str


HELLO = Method("initialize", Nothing, Nothing)
PING = Method("ping", Ping, Ping)
NEW = Method("new", Nothing, Scoped, opens_session=True, in_order=True)
FORK = Method("fork", Scoped, Scoped, opens_session=True, in_order=True)
PROMPT = Method("prompt", Update, Ping, in_order=True)
CLOSE = Method("close", Scoped, Nothing, in_order=True, ends_session=True)
UPDATE = Notification("update", Update)
CANCEL = Notification("cancel", Scoped, side="agent", urgent=True)


class Seen(list[bytes]):
    """A tap that keeps what passes."""

    def __call__(self, direction: str, frame: bytes) -> None:
        self.append(frame)


@asynccontextmanager
async def connected_pair(
    left: Handlers | None = None, right: Handlers | None = None, **options: Any
) -> AsyncGenerator[tuple[Connection, Connection]]:
    """Two connections in memory; the right one is the side that answers."""
    near, far = memory_pair(options.get("max_incoming_bytes", MAX_INCOMING_BYTES))
    async with (
        Connection(near, left or Handlers(), **options) as client,
        Connection(far, right or Handlers(), **options) as agent,
    ):
        yield client, agent


def frame(**members: Any) -> bytes:
    """Return a frame with these members."""
    return msgspec.json.encode({"jsonrpc": "2.0", **members})
