"""Errors raised by a handler are raised at the peer; details of unexpected exceptions are not sent."""

from __future__ import annotations

import asyncio
import gc
import json
import re
from typing import Any

import pytest
from msgspec import UNSET, Raw

from duologue import errors
from duologue.errors import EncodeError, InternalError, InvalidParams, MethodNotFound, ProtocolViolation, RequestError
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.runtime.outgoing_requests import read_object
from duologue.schema import v1
from duologue.schema.base import Method, Notification
from duologue.transports.memory import memory_pair
from tests.runtime.messages import NEW, PING, PROMPT, UPDATE, Nothing, Ping, Scoped, Seen, Update, connected_pair, frame

URGENT = Notification("urgent", Update, urgent=True)

CLASSES = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, RequestError) and found is not RequestError
]


def agent_that_raises(error: BaseException | None) -> Handlers:
    handlers = Handlers()

    @handlers.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        if params.text == "still there?" or error is None:
            return params
        raise error

    return handlers


async def caught_from(error: BaseException, **options: Any) -> RequestError:
    """Return the error that the caller of a handler that raises this gets; the connection must survive."""
    async with asyncio.timeout(60), connected_pair(None, agent_that_raises(error), **options) as (client, _):
        with pytest.raises(RequestError) as caught:
            await client.request(PING, Ping())
        assert await client.request(PING, Ping(text="still there?")) == Ping(text="still there?")
    return caught.value


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
async def test_every_error_class_is_sent_and_raised_unchanged(kind: type[RequestError]) -> None:
    assert len(CLASSES) == 12
    caught = await caught_from(kind("because", data={"why": [1, None, "ü"]}))

    assert type(caught) is kind
    assert (caught.code, caught.message, caught.data) == (kind.code, "because", {"why": [1, None, "ü"]})


@pytest.mark.rule(17)
@pytest.mark.parametrize("code", [12345, -1, 0, 2**40, -32099])
async def test_a_custom_code_is_raised_as_a_plain_request_error(code: int) -> None:
    caught = await caught_from(RequestError("mine", code=code))

    assert type(caught) is RequestError
    assert (caught.code, caught.message) == (code, "mine")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text from me")


SECRET = "hunter2-/home/somebody/private"
ACCIDENTS: list[BaseException] = [
    ValueError(SECRET),
    KeyError('{"jsonrpc":"2.0","id":1,"result":"' + SECRET + '"}'),
    OSError(2, "No such file", SECRET),
    Unprintable(SECRET),
    RecursionError(SECRET),
    MemoryError(SECRET),
    KeyboardInterrupt(SECRET),
    SystemExit(SECRET),
    GeneratorExit(SECRET),
    ExceptionGroup(SECRET, [ValueError(SECRET)]),
    EncodeError(SECRET),
]


@pytest.mark.fault("RPC-20", "PRC-18")
@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda accident: type(accident).__name__)
async def test_an_unexpected_exception_is_answered_by_its_class_and_a_reference_only(
    accident: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    caught = await caught_from(accident)

    assert type(caught) is InternalError
    found = re.fullmatch(r"(\w+) \(reference ([0-9a-f]{8})\)", caught.message)
    assert found is not None
    assert found[1] == type(accident).__name__
    assert caught.data is None
    record = next(record for record in caplog.records if found[2] in record.getMessage())
    assert record.exc_info is not None
    assert record.exc_info[1] is accident


@pytest.mark.parametrize("accident", [ValueError("what happened"), Unprintable()], ids=["text", "no text"])
async def test_with_debug_the_text_of_an_exception_is_sent_too(accident: Exception) -> None:
    caught = await caught_from(accident, debug=True)

    assert type(caught) is InternalError
    expected = (
        "ValueError: what happened" if isinstance(accident, ValueError) else "Unprintable: its text could not be read"
    )
    assert caught.message.startswith(expected)


@pytest.mark.fault("RPC-21")
@pytest.mark.parametrize("result", [object(), {"a": {1, object()}}, {(1, 2): 3}], ids=["object", "deep", "key"])
async def test_a_result_that_is_not_json_fails_only_its_request(result: object) -> None:
    agent_side = agent_that_raises(None)
    odd = Method[Nothing, Any]("odd", Nothing, Ping)

    @agent_side.on(odd)
    async def answer(context: Context, params: Nothing) -> Any:
        return result

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        other = asyncio.ensure_future(client.request(PING, Ping(text="a")))
        with pytest.raises(InternalError, match="EncodeError"):
            await client.request(odd, Nothing())
        assert await other == Ping(text="a")


@pytest.mark.rule(8)
@pytest.mark.parametrize("nothing", [None, UNSET, Nothing()])
async def test_a_result_of_none_is_sent_as_an_empty_object(nothing: object) -> None:
    agent_side = agent_that_raises(None)
    seen = Seen()
    odd = Method[Nothing, Any]("odd", Nothing, Nothing)

    @agent_side.on(odd)
    async def answer(context: Context, params: Nothing) -> Any:
        return nothing

    async with asyncio.timeout(60), connected_pair(None, agent_side, observers=(seen,)) as (client, _):
        assert await client.request(odd, Nothing()) == Nothing()
    assert json.loads(seen[-1])["result"] == {}


@pytest.mark.rule(15)
async def test_invalid_parameters_are_rejected_with_their_path() -> None:
    wrong = Method[dict[str, Any], Any]("prompt", dict, Nothing)
    agent_side = agent_that_raises(None)
    calls: list[str] = []

    @agent_side.on(PROMPT)
    async def prompt(context: Context, params: Update) -> Ping:
        calls.append(params.text)
        return Ping()

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        with pytest.raises(InvalidParams, match="text"):
            await client.request(wrong, {"sessionId": "s", "text": 5})
        with pytest.raises(InvalidParams, match="sessionId"):
            await client.request(wrong, {"text": "a"})
    assert calls == []


@pytest.mark.rule(13)
async def test_the_error_of_an_unknown_method_names_it() -> None:
    unknown = Method("foo/bar", Nothing, Nothing)
    async with asyncio.timeout(60), connected_pair() as (client, _):
        with pytest.raises(MethodNotFound, match="foo/bar") as caught:
            await client.request(unknown, Nothing())
    assert caught.value.data == {"method": "foo/bar"}


async def test_an_invalid_result_is_a_protocol_violation() -> None:
    agent_side = agent_that_raises(None)
    theirs = Method[Ping, Ping]("new", Ping, Ping)

    @agent_side.on(theirs)
    async def new(context: Context, params: Ping) -> Ping:
        return Ping(text="no session id in here")

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        with pytest.raises(ProtocolViolation, match=r"the result of new is invalid: .*sessionId"):
            await client.request(NEW, Nothing())
        await client.request(PING, Ping())


async def test_parameters_that_are_not_json_are_not_sent() -> None:
    odd = Method[Any, Any]("odd", object, Nothing)
    seen = Seen()
    async with asyncio.timeout(60), connected_pair(None, None, observers=(seen,)) as (client, _):
        with pytest.raises(EncodeError):
            await client.request(odd, object())
    assert seen == []


async def test_an_exception_in_on_result_fails_only_its_caller() -> None:
    agent_side = agent_that_raises(None)

    @agent_side.on(NEW)
    async def new(context: Context, params: Nothing) -> Scoped:
        return Scoped(session_id="fresh")

    def on_result(result: Scoped) -> None:
        raise LookupError(result.session_id)

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, agent):
        with pytest.raises(LookupError, match="fresh"):
            await client.request(NEW, Nothing(), on_result=on_result)
        await client.request(PING, Ping())
        await agent.notify(UPDATE, Update(session_id="fresh", text=""))


async def test_an_exception_in_an_action_after_the_response_is_logged_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent_side = agent_that_raises(None)
    followed: list[str] = []

    @agent_side.on(NEW)
    async def new(context: Context, params: Nothing) -> Scoped:
        async def fail() -> None:
            raise LookupError("broken on purpose")

        async def follow() -> None:
            followed.append("second")

        context.after_response(fail)
        context.after_response(follow)
        return Scoped(session_id="fresh")

    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        await client.request(NEW, Nothing())
        await client.request(PING, Ping())
    assert followed == ["second"]
    assert "an action after the response to new' failed" in caplog.text


@pytest.mark.fault("RPC-20")
async def test_a_notification_handler_that_raises_generator_exit_fails_only_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handled: asyncio.Queue[str] = asyncio.Queue()
    agent_side = Handlers()

    async def note(context: Context, params: Update) -> None:
        handled.put_nowait(params.text)
        if params.text == "bad":
            raise GeneratorExit

    agent_side.on(UPDATE)(note)
    agent_side.on(URGENT)(note)
    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        for text in ("bad", "good"):
            for notification in (UPDATE, URGENT):
                await client.notify(notification, Update(session_id="s", text=text))
        got = [await handled.get() for _ in range(4)]

    assert sorted(got) == ["bad", "bad", "good", "good"]
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        "handling 'update' failed",
        "handling 'urgent' failed",
    ]


@pytest.mark.fault("RPC-20")
def test_an_event_loop_that_ends_under_a_handler_is_not_logged_as_its_error(caplog: pytest.LogCaptureFixture) -> None:
    began: list[str] = []
    begun = asyncio.Semaphore(0)

    async def hang(context: Context, params: Any) -> Any:
        began.append(context.method)
        begun.release()
        await asyncio.get_running_loop().create_future()

    async def use() -> None:
        agent_side = Handlers()
        for method in (PING, UPDATE, URGENT):
            agent_side.on(method)(hang)
        near, far = memory_pair()
        connection = Connection(far, agent_side)
        await connection.__aenter__()
        async with near:
            near.send(frame(id=1, method="ping"))
            for name in ("update", "urgent"):
                near.send(frame(method=name, params={"sessionId": "s", "text": ""}))
            async with asyncio.timeout(60):
                for _ in range(3):
                    await begun.acquire()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(use())
    loop.close()  # the tasks are left behind, and their coroutines are closed when they are collected
    del loop
    gc.collect()

    assert sorted(began) == ["ping", "update", "urgent"]
    assert "handling" not in caplog.text


@pytest.mark.parametrize("raw", [UNSET, Raw(b"null"), Raw(b"{}")])
def test_absent_and_null_parameters_are_an_empty_object(raw: Any) -> None:
    assert read_object(v1.LogoutRequest, raw) == v1.LogoutRequest()


def test_absent_parameters_of_a_method_with_fields_name_the_first_one() -> None:
    with pytest.raises(InvalidParams, match=r"^\$\.sessionId: missing$"):
        read_object(v1.PromptRequest, UNSET)
