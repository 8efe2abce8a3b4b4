"""One end of a connection under test: fed with frames written by hand, and checked by fixed rules afterwards.

The rules, for every case: *alive*, a valid request is still answered; *honest*, every request has exactly one response;
*clean*, no task is left; *quiet*, no traceback in the log. Cases about memory also check *bounded*.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias

from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import UNSET, JsonObject, Method, Model, Notification, UnsetType
from duologue.transports.memory import MemoryTransport, memory_pair

Side: TypeAlias = Literal["agent", "client"]
SIDES: list[Side] = ["agent", "client"]


class Anything(Model, frozen=True, kw_only=True):
    """Parameters of every kind a schema has: text, an integer, free JSON, and `_meta`."""

    text: str = ""
    count: int = 0
    raw_input: Any | UnsetType = UNSET
    session_id: str | None = None
    meta: JsonObject | None = None


ECHO = Method("echo", Anything, Anything)
HOLD = Method("hold", Anything, Anything)
HELLO = Method("initialize", Anything, Anything)
NOTE = Notification("note", Anything)


class End:
    """A connection of one side, and the far end of its wire in the hands of the test.

    Attributes:
        calls: What its handlers were called with.
        release: Lets the handlers of `hold` return.
        received: Every frame it has sent, decoded.
    """

    def __init__(self, side: Side, wire: MemoryTransport, handlers: Handlers) -> None:
        self.side = side
        self.wire = wire
        self.calls: list[tuple[str, Anything]] = []
        self.release = asyncio.Event()
        self.received: list[dict[str, Any]] = []
        self.connection: Connection
        self._called = asyncio.Event()
        self._asked: Counter[Any] = Counter()
        self._probes = 0
        self._register(handlers)

    def _register(self, handlers: Handlers) -> None:
        @handlers.on(HELLO)
        @handlers.on(ECHO)
        async def echo(context: Context, params: Anything) -> Anything:
            self._record(context.method, params)
            return params

        @handlers.on(HOLD)
        async def hold(context: Context, params: Anything) -> Anything:
            self._record(context.method, params)
            await self.release.wait()
            return params

        @handlers.on(NOTE)
        async def note(context: Context, params: Anything) -> None:
            self._record(context.method, params)

    def _record(self, method: str, params: Anything) -> None:
        self.calls.append((method, params))
        self._called.set()

    async def until_called(self, times: int) -> None:
        """Wait until its handlers were called so often."""
        while len(self.calls) < times:
            self._called.clear()
            await self._called.wait()

    def send(self, *frames: bytes) -> None:
        """Feed frames; none of them is expected to be a request that gets a response with its id."""
        for frame in frames:
            self.wire.send(frame)

    def ask(self, id: int | str, method: str = "echo", **params: Any) -> None:
        """Feed a valid request, which must get exactly one response."""
        self._asked[_key(id)] += 1
        self.wire.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())

    def ask_raw(self, id: int | str, params: str) -> None:
        """Feed a request to `echo` whose parameters are written by hand."""
        self._asked[_key(id)] += 1
        self.wire.send(f'{{"jsonrpc":"2.0","id":{json.dumps(id)},"method":"echo","params":{params}}}'.encode())

    def expect_response(self, id: int | str) -> None:
        """Note that a raw frame was a request with this id."""
        self._asked[_key(id)] += 1

    async def next(self) -> dict[str, Any]:
        """Return the next frame that the end sends."""
        (message,) = await self.next_frames(1)
        return message

    async def next_frames(self, count: int) -> list[dict[str, Any]]:
        """Return the next frames that the end sends."""
        start = len(self.received)
        while len(self.received) < start + count:
            self.received += [json.loads(frame.decode()) for frame in await self.wire.receive()]
        assert len(self.received) == start + count, self.received[start:]
        return self.received[start:]

    async def responses_to(self, *frames: bytes) -> list[dict[str, Any]]:
        """Return the immediate responses to these frames; check that the end is alive afterwards."""
        start = len(self.received)
        self.send(*frames)
        probe = await self.probe()
        return [answer for answer in self.received[start:] if answer["id"] != probe]

    async def error_for(self, frame: bytes) -> tuple[Any, int]:
        """Return the id and the code of the one error response to this frame."""
        (answer,) = await self.responses_to(frame)
        assert set(answer) == {"jsonrpc", "id", "error"}
        assert answer["error"]["message"]
        return answer["id"], answer["error"]["code"]

    async def probe(self) -> str:
        """Check that a valid request is answered; return its id."""
        self._probes += 1
        id = f"probe {self._probes}"
        self.ask(id, text=id)
        while not (found := [message for message in self.received if message.get("id") == id]):
            self.received += [json.loads(frame.decode()) for frame in await self.wire.receive()]
        assert found[0]["result"] == {"text": id}
        return id

    def check_responses(self) -> None:
        """Check that each request has one response, and each response with an id has a request."""
        answered = Counter(
            _key(message["id"]) for message in self.received if "method" not in message and message["id"] is not None
        )
        assert answered == self._asked


def _key(id: Any) -> tuple[str, Any]:
    """`1` and `"1"` are different ids."""
    return (type(id).__name__, id)


class Listener(logging.Handler):
    """Collects the messages logged as errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@asynccontextmanager
async def open_end(side: Side, handlers: Handlers | None = None, **options: Any) -> AsyncGenerator[End]:
    """Open an end of this side after `initialize`; check the rules when leaving."""
    before = asyncio.all_tasks()
    listener = Listener()
    logging.getLogger("duologue").addHandler(listener)
    near, far = memory_pair()
    handlers = handlers if handlers is not None else Handlers()
    end = End(side, near, handlers)
    sided: dict[str, Any] = {"first_method": "initialize"} if side == "agent" else {"ignore_stray_output": True}
    async with asyncio.timeout(60):
        async with near, Connection(far, handlers, **sided, **options) as end.connection:
            if side == "agent":
                end.ask("hello", "initialize")
                await end.next()
            end.calls.clear()
            yield end
            if not end.connection.is_closed:
                await end.probe()
                end.check_responses()
    logging.getLogger("duologue").removeHandler(listener)
    assert asyncio.all_tasks() - before == set()
    assert listener.messages == []
