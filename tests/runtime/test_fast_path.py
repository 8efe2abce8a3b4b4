"""The fast path decodes a notification as the general path does, and leaves anything else to it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from duologue.jsonrpc.codec import MAX_DEPTH, PLAIN_NOTIFICATION
from duologue.runtime.connection import Connection
from duologue.runtime.fast_path import NotificationFastPath
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import JsonValue, Model, Notification
from duologue.transports.memory import memory_pair
from tests.runtime.messages import CANCEL, HELLO, UPDATE, Nothing, Scoped, Update, frame

GOOD = b'{"jsonrpc":"2.0","method":"update","params":{"sessionId":"s","text":"t"}}'
DEEP = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH


class Answers(list[Any]):
    """The error codes, and the ids they were sent to."""

    def add(self, frames: list[bytes]) -> None:
        self.extend((answer["error"]["code"], answer["id"]) for answer in map(msgspec.json.decode, frames))


def read(handlers: Handlers, frame: bytes) -> Any:
    """Return what the fast path decodes from a frame; `None` if it leaves the frame to the general path."""
    shortcut = NotificationFastPath(handlers)
    shortcut.refresh()
    try:
        known = shortcut.decode(frame)
    except Exception:
        return None
    return known if known.id is UNSET else None


def updates(seen: list[Any] | None = None) -> Handlers:
    handlers = Handlers()

    @handlers.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        if seen is not None:
            seen.append(params)

    return handlers


def test_a_plain_notification_is_read_in_one_pass() -> None:
    known = read(updates(), GOOD)

    assert GOOD.startswith(PLAIN_NOTIFICATION)
    assert (known.method, known.params) == ("update", Update(session_id="s", text="t"))


@pytest.mark.parametrize(
    "frame",
    [
        GOOD.replace(b'"params"', b'"id":1,"params"'),
        GOOD.replace(b'"update"', b'"other"'),
        GOOD.replace(b'"t"', b"5"),
        GOOD.replace(b'{"sessionId":"s","text":"t"}', b"null"),
        GOOD.replace(b"2.0", b"1.0"),
        GOOD[:-1],
    ],
)
def test_anything_but_a_valid_notification_takes_the_general_path(frame: bytes) -> None:
    assert read(updates(), frame) is None


def test_a_changed_table_of_handlers_is_noticed() -> None:
    handlers = Handlers()
    shortcut = NotificationFastPath(handlers)
    shortcut.refresh()
    handlers.on(UPDATE)(updates().notifications["update"][1])

    with pytest.raises(LookupError):
        shortcut.decode(GOOD)
    shortcut.refresh()
    assert shortcut.decode(GOOD).params == Update(session_id="s", text="t")


@pytest.mark.parametrize("kind", [JsonValue, dict[str, int], Model | None])
def test_params_that_need_not_be_an_object_take_the_general_path(kind: Any) -> None:
    handlers = Handlers()

    @handlers.on(Notification[Any]("update", kind))
    async def update(context: Context, params: Any) -> None:
        pass

    assert read(handlers, GOOD) is None


def test_a_type_that_msgspec_does_not_know_takes_the_general_path() -> None:
    class Strange(Model, frozen=True, kw_only=True):
        several: set[int] | list[int]

    async def update(context: Context, params: Strange) -> None:
        pass

    handlers = Handlers()
    strange = Notification("update", Strange)
    with pytest.raises(TypeError, match="more than one array-like"):
        handlers.on(strange)
    handlers.notifications["update"] = (strange, update)
    assert read(handlers, GOOD) is None


async def test_a_replaced_handler_gets_params_of_its_own_type() -> None:
    seen: list[Any] = []
    handlers = updates(seen)
    near, far = memory_pair()

    async with asyncio.timeout(60), Connection(near, handlers):
        far.send(GOOD)
        far.send(GOOD)
        far.send(frame(id=1, method="last"))
        await far.receive()
        arrived = asyncio.Event()

        @handlers.on(Notification("update", Scoped))
        async def update(context: Context, params: Scoped) -> None:
            seen.append(params)
            arrived.set()

        far.send(GOOD)
        await arrived.wait()

    assert seen == [Update(session_id="s", text="t"), Update(session_id="s", text="t"), Scoped(session_id="s")]


async def test_invalid_notifications_get_the_responses_of_the_general_path() -> None:
    seen: list[Any] = []
    answers = Answers()
    near, far = memory_pair()

    async with asyncio.timeout(60), Connection(near, updates(seen)):
        for bad in (
            GOOD,
            GOOD,
            GOOD.replace(b'"text":"t"', b'"text":"t","unknown":"\xff"'),
            GOOD.replace(b'"text":"t"', b'"text":"t","unknown":' + DEEP),
            GOOD.replace(b'"params"', b'"id":1,"params"'),
            GOOD[:-1],
        ):
            far.send(bad)
        while len(answers) < 4:
            answers.add(await far.receive())

    assert answers == [(-32700, None), (-32700, None), (-32601, 1), (-32700, None)]
    assert seen == [Update(session_id="s", text="t")] * 2


async def test_urgent_notifications_overtake_and_early_ones_are_dropped() -> None:
    seen: list[str] = []
    done = asyncio.Event()
    handlers = Handlers()

    @handlers.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        seen.append(params.text)
        await asyncio.sleep(0)
        if params.text == "2":
            done.set()

    @handlers.on(CANCEL)
    async def cancel(context: Context, params: Scoped) -> None:
        seen.append("cancel")

    @handlers.on(HELLO)
    async def hello(context: Context, params: Nothing) -> Nothing:
        return Nothing()

    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(near, handlers, first_method="initialize"):
        far.send(GOOD)
        far.send(frame(id=1, method="initialize"))
        await far.receive()
        for text in ("1", "2"):
            far.send(frame(method="update", params={"sessionId": "s", "text": text}))
        far.send(frame(method="cancel", params={"sessionId": "s"}))
        await done.wait()

    assert seen == ["1", "cancel", "2"]
