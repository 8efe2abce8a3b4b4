"""Methods outside the schema: typed custom ones, and anything else a peer may send."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw, UnsetType

from duologue.errors import InternalError, MethodNotFound, RequestError
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v1
from duologue.schema.base import Method, Model, Notification
from duologue.schema.codec import check_readable
from duologue.transports.memory import memory_pair
from tests.runtime.messages import PING, UPDATE, Nothing, Ping, Seen, Update, connected_pair, frame


class Sum(Model, frozen=True, kw_only=True):
    some_numbers: list[int]


class Total(Model, frozen=True, kw_only=True):
    grand_total: int


SUM = Method("_calc/sum", Sum, Total)
TOTAL_IS = Notification("_calc/total", Total)


@pytest.mark.fault("SCH-07")
async def test_a_custom_method_is_typed_like_any_other() -> None:
    agent_side, client_side = Handlers(), Handlers()
    received: asyncio.Queue[int] = asyncio.Queue()

    @agent_side.on(SUM)
    async def add(context: Context, params: Sum) -> Total:
        await context.connection.notify(TOTAL_IS, Total(grand_total=sum(params.some_numbers)))
        return Total(grand_total=sum(params.some_numbers))

    @client_side.on(TOTAL_IS)
    async def total_is(context: Context, params: Total) -> None:
        received.put_nowait(params.grand_total)

    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (client, _):
        answer = await client.request(SUM, Sum(some_numbers=[1, 2, 3]))
        assert answer.grand_total == await received.get() == 6


@pytest.mark.fault("SCH-07")
@pytest.mark.rule(13, 14)
async def test_a_custom_request_without_a_handler_is_unknown_and_a_custom_notification_ignored() -> None:
    async with asyncio.timeout(60), connected_pair() as (client, _):
        await client.notify(TOTAL_IS, Total(grand_total=1))
        with pytest.raises(MethodNotFound, match="_calc/sum"):
            await client.request(SUM, Sum(some_numbers=[]))


@pytest.mark.fault("SCH-07")
async def test_other_requests_reach_the_raw_handler_with_their_bytes_unchanged() -> None:
    agent_side = Handlers()
    seen: list[tuple[str, bytes | None, int | str | None]] = []

    async def anything(context: Context, params: Raw | UnsetType) -> Any:
        seen.append((context.method, None if isinstance(params, UnsetType) else bytes(params), context.id))
        if context.method == "_fail":
            raise RequestError("as requested", code=7)
        return params

    agent_side.other_requests = anything
    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(far, agent_side), near:
        near.send(b'{"jsonrpc":"2.0","id":"a","method":"_x/y","params":{"n": 1.10, "n": 12345678901234567890123}}')
        near.send(frame(id=2, method="_fail"))
        got: list[bytes] = []
        while len(got) < 2:
            got += await near.receive()
    assert got[0] == b'{"jsonrpc":"2.0","id":"a","result":{"n": 1.10, "n": 12345678901234567890123}}'
    assert json.loads(got[1])["error"] == {"code": 7, "message": "as requested"}
    assert seen == [("_x/y", b'{"n": 1.10, "n": 12345678901234567890123}', "a"), ("_fail", None, 2)]


async def test_other_notifications_reach_the_raw_handler_in_order() -> None:
    agent_side = Handlers()
    seen: list[str] = []
    done = asyncio.Event()

    async def anything(context: Context, params: Raw | UnsetType) -> None:
        await asyncio.sleep(0)
        seen.append(context.method)
        if params is not UNSET:
            done.set()

    agent_side.other_notifications = anything
    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        for n in range(5):
            await client.notify(Notification[Any](f"_x/{n}", object), UNSET)
        await client.notify(TOTAL_IS, Total(grand_total=1))
        await done.wait()
    assert seen == ["_x/0", "_x/1", "_x/2", "_x/3", "_x/4", "_calc/total"]


@pytest.mark.fault("RPC-18")
@pytest.mark.rule(9)
async def test_a_known_method_in_the_wrong_form_reaches_no_handler_of_any_kind() -> None:
    agent_side = Handlers()
    calls: list[str] = []

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        calls.append("ping" if context.id is not None else "ping without an id")
        return params

    @agent_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        calls.append("update")

    async def anything(context: Context, params: Raw | UnsetType) -> None:
        calls.append("other")

    agent_side.other_requests = agent_side.other_notifications = anything
    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        await client.notify(Notification("ping", Ping), Ping())
        with pytest.raises(MethodNotFound):
            await client.request(Method("update", Update, Nothing), Update(session_id="s", text=""))
        await client.request(PING, Ping())
    assert calls == ["ping"]


async def test_a_handler_registered_while_connected_serves_at_once_and_replaces_the_one_before() -> None:
    async with asyncio.timeout(60), connected_pair() as (client, agent):
        for text in ("first", "second"):

            @agent.handlers.on(PING)
            async def ping(context: Context, params: Ping, text: str = text) -> Ping:
                return Ping(text=text)

            assert await client.request(PING, Ping()) == Ping(text=text)


@pytest.mark.rule(20, 21)
async def test_unknown_fields_and_foreign_meta_are_unchanged() -> None:
    """Trace context is sent in `_meta`; this library does not read, change or drop it."""
    meta = {
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "tracestate": "vendor=1",
        "baggage": "k=v",
        "_mine": {"deep": [1, {"x": None}]},
    }
    agent_side = Handlers()
    received: list[Any] = []

    @agent_side.on(v1.SESSION_PROMPT)
    async def prompt(context: Context, params: v1.PromptRequest) -> v1.PromptResponse:
        received.append((params.meta, json.loads(context.raw)["params"]["zzz"]))
        return v1.PromptResponse(stop_reason="end_turn", meta=params.meta)

    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(far, agent_side), near:
        near.send(
            frame(id=1, method="session/prompt", params={"sessionId": "s", "prompt": [], "zzz": 1, "_meta": meta})
        )
        answer = json.loads((await near.receive())[0])
    assert received == [(meta, 1)]
    assert answer["result"] == {"stopReason": "end_turn", "_meta": meta}


@pytest.mark.parametrize("result", [b"null", b"[1, 1e400]", b'{"a":1,"a":2}'])
async def test_a_result_read_as_raw_is_unchanged(result: bytes) -> None:
    agent_side = Handlers()

    async def answer(context: Context, params: Raw | UnsetType) -> Raw:
        return Raw(result)

    agent_side.other_requests = answer
    method: Method[Any, Raw] = Method("_odd", object, Raw)
    async with asyncio.timeout(60), connected_pair(Handlers(), agent_side) as (client, _):
        read = await client.request(method, UNSET)

    assert bytes(read) == result


class Untyped(msgspec.Struct):
    anything: list[object]


class Node(msgspec.Struct):
    """A type that contains itself."""

    children: list[Node] = []


class RaisingModel(Model, frozen=True, kw_only=True):
    """A type that fails in its own way while it is read."""

    text: str = ""

    def __post_init__(self) -> None:
        if self.text == "bad":
            raise LookupError("not by me")


@pytest.mark.fault("RPC-23")
@pytest.mark.parametrize("kind", [object, list[object], dict[str, object], Untyped, int | Untyped, Handlers])
async def test_a_result_type_that_cannot_be_decoded_is_a_type_error_before_sending(kind: Any) -> None:
    agent_side, seen = Handlers(), Seen()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        return params

    async with asyncio.timeout(60), connected_pair(None, agent_side, observers=(seen,)) as (client, _):
        with pytest.raises(TypeError, match="cannot be read from JSON"):
            await client.request(Method("ping", Ping, kind), Ping())
        assert seen == []
        assert await client.request(PING, Ping(text="still there?")) == Ping(text="still there?")


@pytest.mark.fault("RPC-23")
@pytest.mark.parametrize("kind", [object, list[object], Untyped])
def test_a_parameter_type_that_cannot_be_decoded_is_rejected_at_registration(kind: Any) -> None:
    for declared in (Method("_odd", kind, Nothing), Notification("_odd", kind)):
        with pytest.raises(TypeError, match="cannot be read from JSON"):
            Handlers().on(declared)


@pytest.mark.parametrize("kind", [Any, dict, list, int | None, Node, dict[str, Any], v1.ContentBlock])
def test_types_that_can_be_decoded_are_accepted(kind: Any) -> None:
    check_readable(kind)
    Handlers().on(Method("_fine", kind, Nothing))


@pytest.mark.fault("RPC-23")
async def test_a_type_that_raises_while_decoding_fails_only_its_message(caplog: pytest.LogCaptureFixture) -> None:
    received: asyncio.Queue[str] = asyncio.Queue()
    agent_side = Handlers()
    ask, notify = Method("_ask", RaisingModel, Ping), Notification("_tell", RaisingModel)

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        return params

    @agent_side.on(ask)
    async def answer(context: Context, params: RaisingModel) -> Ping:
        return Ping(text=params.text)

    @agent_side.on(notify)
    async def note(context: Context, params: RaisingModel) -> None:
        received.put_nowait(params.text)

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        with pytest.raises(LookupError, match="not by me"):
            await client.request(Method("ping", Ping, RaisingModel), Ping(text="bad"))
        with pytest.raises(InternalError, match="LookupError"):
            await client.request(Method("_ask", Ping, Ping), Ping(text="bad"))
        for text in ("bad", "good"):
            await client.notify(Notification("_tell", Ping), Ping(text=text))
        assert await received.get() == "good"
    assert "handling '_tell' failed" in caplog.text


async def test_a_copied_table_follows_its_original_and_keeps_its_own_entries() -> None:
    async def one(context: Context, params: Any) -> Any: ...
    async def two(context: Context, params: Any) -> Any: ...

    original = Handlers()
    original.on(PING)(one)
    copy = original.copy()
    copy.on(UPDATE)(two)
    original.on(SUM)(one)
    copy.copy().on(TOTAL_IS)(one)
    original.other_requests = one
    original.other_notifications = two

    assert (list(original.requests), list(original.notifications)) == (["ping", "_calc/sum"], [])
    assert (list(copy.requests), list(copy.notifications)) == (["ping", "_calc/sum"], ["update"])
    assert (copy.other_requests, copy.other_notifications) == (one, two)
    original.off(PING)
    assert list(copy.requests) == ["_calc/sum"]
