"""The log: silent by default, one line per frame at DEBUG, and never content."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest

from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.runtime.log import FrameLog
from duologue.sanitize import quote
from duologue.transports.memory import memory_pair
from tests.runtime.messages import PING, UPDATE, Ping, Update, connected_pair, frame

SECRET = "sk-planted-secret"


def agent_that_echoes() -> Handlers:
    handlers = Handlers()

    @handlers.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        await context.connection.notify(UPDATE, Update(session_id=SECRET, text=params.text))
        return params

    return handlers


async def exchange_messages() -> None:
    async with asyncio.timeout(60), connected_pair(None, agent_that_echoes()) as (client, agent):
        await client.request(PING, Ping(text=SECRET))
        await agent.aclose()
        await client.wait_closed()


async def test_nothing_is_logged_in_normal_operation(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await exchange_messages()

    assert caplog.records == []


async def test_each_frame_is_one_line_with_direction_method_id_size_and_duration(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "duologue")
    near, far = memory_pair()
    sizes: list[int] = []

    def measure(direction: str, frame: bytes) -> None:
        sizes.append(len(frame))

    async with asyncio.timeout(60), Connection(far, agent_that_echoes(), observers=(measure,)) as agent, near:
        near.send(frame(id=7, method="ping", params={"text": SECRET}))
        near.send(frame(id="7", method=SECRET[:3], params={"text": SECRET}))
        near.send(b"{not json " + SECRET.encode())
        got: list[bytes] = []
        while len(got) < 4:
            got += await near.receive()
        request = asyncio.ensure_future(agent.request(PING, Ping(text=SECRET)))
        await near.receive()
        near.send(frame(id=1, result={"text": SECRET}))
        await request
    lines = [record.getMessage() for record in caplog.records if record.name == "duologue.wire"]
    assert [re.sub(r"\d+\.\d ms", "… ms", line) for line in lines] == [
        f"<- 'ping' id=7, {sizes[0]} bytes",
        f"<- 'sk-' id='7', {sizes[1]} bytes",
        f"-> error id='7', {sizes[2]} bytes, … ms",
        f"<- not a message, {sizes[3]} bytes",
        f"-> error id=None, {sizes[4]} bytes",
        f"-> 'update', {sizes[5]} bytes",
        f"-> result id=7, {sizes[6]} bytes, … ms",
        f"-> 'ping' id=1, {sizes[7]} bytes",
        f"<- result id=1, {sizes[8]} bytes, … ms",
    ]


async def test_no_secret_reaches_the_log_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    """Planted in params, results, session ids, errors, malformed members, noise in the middle, and dropped params."""
    caplog.set_level(1)
    await exchange_messages()
    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(far, agent_that_echoes(), ignore_stray_output=True) as agent, near:
        agent.handlers.on(UPDATE)(ignore)
        for hostile in (
            frame(id=1, method={"x": SECRET}),
            frame(id={"x": SECRET}, method="ping"),
            frame(id=2, method="ping", params=SECRET),
            frame(id=3, method="ping", params={"text": [SECRET]}),
            frame(method="update", params={"sessionId": [SECRET], "text": ""}),
            frame(id=99, result=SECRET),
            frame(id=99, error={"code": 1, "message": SECRET, "data": SECRET}),
            b"noise " + SECRET.encode(),
            b'{"' + SECRET.encode(),
        ):
            near.send(hostile)
        near.send(frame(id="last", method="ping", params={"text": SECRET}))
        while b'"last"' not in (await near.receive())[-1]:
            pass
    assert len(caplog.records) > 10
    assert SECRET not in caplog.text
    assert all(SECRET not in str(record.__dict__) for record in caplog.records)


async def ignore(context: Context, params: Any) -> None:
    """Fail if called: these notifications are dropped before they reach a handler."""


@pytest.mark.fault("LOG-07")
async def test_no_method_name_of_a_peer_can_forge_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)
    name = "x\nERROR forged \x1b[2J\u2028\u202e" + "y" * 600

    async def fail(context: Context, params: Any) -> None:
        raise ValueError("broken on purpose")

    handlers = Handlers()
    handlers.other_requests = handlers.other_notifications = fail
    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(far, handlers), near:
        near.send(frame(method=name))
        near.send(frame(id=name, method=name))
        await near.receive()
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("duologue")]
    assert len(messages) == 5
    for message in messages:
        assert message.isascii() or message.count("…")
        assert message.isprintable()
        assert len(message) < 500


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\nb", r"'a\nb'"),
        (b"\x1b[0m", r"b'\x1b[0m'"),
        (5, "5"),
        (None, "None"),
        (ValueError("ü"), r"'\xfc'"),
        ("x" * 300, "'" + "x" * 199 + "…"),
    ],
)
def test_peer_data_is_shown_escaped_and_cut(value: object, shown: str) -> None:
    assert quote(value) == shown


def test_the_table_of_request_start_times_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "duologue")
    log = FrameLog()
    for id in range(5000):
        log("in", frame(id=id, method="m"))
    log("out", frame(id=0, result={}))
    log("out", frame(id=4999, result={}))

    forgotten, logged = (record.getMessage() for record in caplog.records[-2:])
    assert "ms" not in forgotten
    assert logged.endswith("ms")
