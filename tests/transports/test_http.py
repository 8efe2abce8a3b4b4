"""The client's side of streamable HTTP: what it posts where, what it makes of answers, and how it returns."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from duologue.errors import ConnectError, ConnectionLost, MessageTooLarge, OutputLimitExceeded, ResumeFailed
from duologue.transports.remote import event_stream
from duologue.transports.remote.http import HttpTransport
from duologue.transports.remote.url import RemoteEndpoint
from duologue.transports.resume.protocol import RetryPolicy
from tests.transports.httpserver import END, Answer, Fake, Json, ReceivedRequest, serving
from tests.transports.waiting import until
from tests.transports.wsserver import CuttingProxy

INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'
GRANT = {"version": 1, "connectionId": "c-1", "graceSeconds": 30}
QUICK = RetryPolicy(first=0.01, longest=0.05, limit=5.0)


class Client:
    """A transport with messages for frames."""

    def __init__(self, transport: HttpTransport) -> None:
        self.transport = transport
        self._waiting: list[bytes] = []

    def send(self, **message: Any) -> None:
        self.transport.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def next(self) -> Json:
        while not self._waiting:
            self._waiting += await self.transport.receive()
            assert self._waiting, "nothing more will come"
        message: Json = json.loads(self._waiting.pop(0))
        return message


@asynccontextmanager
async def opened(fake: Fake, retry: RetryPolicy = QUICK, **options: Any) -> AsyncGenerator[Client]:
    """Open an initialized client."""
    async with asyncio.timeout(60), serving(fake) as address:
        async with HttpTransport(address, retry=retry, **options) as transport:
            client = Client(transport)
            transport.send(INITIALIZE)
            assert await client.next() == {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1}}
            yield client


def prompt(id: int | str = 1, session: str = "s-1") -> Json:
    return {"id": id, "method": "session/prompt", "params": {"sessionId": session}}


async def test_headers_and_token_are_shown_with_every_request() -> None:
    fake = Fake()
    async with asyncio.timeout(60), serving(fake) as address:
        address = RemoteEndpoint.of(address.url + "#token=abc", headers={"X-Team": "blue"})
        async with HttpTransport(address) as transport:
            client = Client(transport)
            transport.send(INITIALIZE)
            await client.next()
            await until(lambda: len(fake.gets()) == 1)
            client.send(method="hello")
    assert {each.method for each in fake.requests} == {"POST", "GET", "DELETE"}
    assert {(each.headers["authorization"], each.headers["x-team"]) for each in fake.requests} == {
        ("Bearer abc", "blue")
    }


async def test_the_first_request_is_a_post_and_the_last_a_delete() -> None:
    fake = Fake()
    async with opened(fake) as client:
        await until(lambda: len(fake.gets()) == 1)
        client.send(method="hello")
    first, *_, last = fake.requests
    assert (first.method, first.headers["content-type"]) == ("POST", "application/json")
    assert first.message["params"]["_meta"] == {"duologue/resume": {"version": 1}}
    assert "acp-connection-id" not in first.headers
    assert (last.method, last.headers["acp-connection-id"]) == ("DELETE", "c-1")
    [hello] = fake.posts()
    assert (hello.message["method"], hello.headers["acp-connection-id"]) == ("hello", "c-1")
    assert "duologue-message" not in hello.headers


async def test_sent_frames_arrive_in_order() -> None:
    fake = Fake()
    async with opened(fake) as client:
        for number in range(20):
            client.send(method=f"m{number}")
    assert [each.message["method"] for each in fake.posts()] == [f"m{number}" for number in range(20)]


async def test_the_event_stream_of_a_session_is_opened_before_its_first_post() -> None:
    fake = Fake()
    async with opened(fake) as client:
        client.send(**prompt())
        fake.send_event({"jsonrpc": "2.0", "id": 1, "result": {}}, "s-1")
        assert (await client.next())["id"] == 1
    methods = [(each.method, each.session) for each in fake.requests if each.session == "s-1"]
    assert methods == [("GET", "s-1"), ("POST", "s-1")]


async def test_a_new_session_is_listened_to_as_soon_as_it_is_known() -> None:
    fake = Fake()
    async with opened(fake) as client:
        client.send(id=1, method="session/new", params={})
        fake.send_event({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s-9"}})
        assert (await client.next())["result"] == {"sessionId": "s-9"}
        fake.send_event({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s-9"}}, "s-9")
        assert (await client.next())["method"] == "session/update"


async def test_answers_carry_the_session_of_the_question() -> None:
    fake = Fake()
    async with opened(fake) as client:
        client.send(**prompt())
        fake.send_event({"jsonrpc": "2.0", "id": 5, "method": "ask", "params": {}}, "s-1")
        fake.send_event({"jsonrpc": "2.0", "id": "5", "method": "ask", "params": {}})
        assert {(await client.next())["id"], (await client.next())["id"]} == {5, "5"}
        client.send(id=5, result={})
        client.send(id="5", result={})
        await until(lambda: len(fake.posts()) == 3)
    assert [(each.message["id"], each.session) for each in fake.posts()[1:]] == [(5, "s-1"), ("5", None)]


async def test_the_first_message_must_be_initialize() -> None:
    fake = Fake()
    async with serving(fake) as address, HttpTransport(address) as transport:
        client = Client(transport)
        client.send(method="early")
        client.send(id=1, method="session/new")
        assert (await client.next())["error"]["code"] == -32600
    assert fake.requests == []


@pytest.mark.parametrize("status", [301, 401, 403, 404, 500, 503])
async def test_a_server_that_rejects_initialize_cannot_be_used(status: int) -> None:
    fake = Fake(on_post=lambda request: (status, {"location": "http://elsewhere.example/"}, b"go away"))
    async with serving(fake) as address, HttpTransport(address) as transport:
        transport.send(INITIALIZE)
        with pytest.raises(ConnectError, match=f"HTTP {status}") as caught:
            await transport.receive()
    assert caught.value.status == status
    assert len(fake.requests) == 1  # no redirect was followed, nothing tried again


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_an_error_response_to_initialize_is_delivered_and_a_second_attempt_allowed(status: int) -> None:
    refusal = b'{"jsonrpc":"2.0","id":0,"error":{"code":-32022,"message":"no"}}'

    def once(request: ReceivedRequest) -> Answer | None:
        return (status, {}, refusal) if len(fake.requests) == 1 else None

    fake = Fake(on_post=once)
    async with serving(fake) as address, HttpTransport(address) as transport:
        client = Client(transport)
        transport.send(INITIALIZE)
        assert (await client.next())["error"]["code"] == -32022
        transport.send(INITIALIZE)
        assert "result" in await client.next()


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"jsonrpc":"2.0","id":9,"result":{}}'])
async def test_an_invalid_response_to_initialize_is_a_connect_error(body: bytes) -> None:
    fake = Fake(on_post=lambda request: (200, {"acp-connection-id": "c"}, body))
    async with serving(fake) as address, HttpTransport(address) as transport:
        transport.send(INITIALIZE)
        with pytest.raises(ConnectError):
            await transport.receive()


async def test_a_connection_without_an_id_cannot_be_used_but_one_in_the_result_counts() -> None:
    named = b'{"jsonrpc":"2.0","id":0,"result":{"connectionId":"c-7"}}'
    for body, is_good in ((named, True), (named.replace(b"connectionId", b"other"), False)):
        fake = Fake(on_post=lambda request, body=body: (200, {}, body))  # type: ignore[misc]
        async with serving(fake) as address, HttpTransport(address) as transport:
            transport.send(INITIALIZE)
            if is_good:
                assert await transport.receive() == [body]
                await until(lambda fake=fake: len(fake.gets()) == 1)  # type: ignore[misc]
                assert fake.gets()[0].headers["acp-connection-id"] == "c-7"
            else:
                with pytest.raises(ConnectionLost, match="named no connection"):
                    await transport.receive()


async def test_no_server_at_the_url_is_an_error() -> None:
    async with HttpTransport(RemoteEndpoint.of("http://127.0.0.1:1")) as transport:
        transport.send(INITIALIZE)
        with pytest.raises(ConnectError, match="cannot reach"):
            await transport.receive()


# Refused messages


@pytest.mark.parametrize(
    ("status", "code"), [(400, -32603), (404, -32002), (409, -32603), (413, -32603), (501, -32603)]
)
@pytest.mark.fault("HTT-07")
async def test_a_request_that_is_refused_fails_alone(status: int, code: int) -> None:
    fake = Fake(on_post=lambda request: (status, {}, b"not this") if request.session == "s-1" else None)
    async with opened(fake) as client:
        client.send(**prompt())
        error = (await client.next())["error"]
        assert (error["code"], error["data"]) == (code, {"status": status, "body": "not this"})
        client.send(id=2, method="session/list", params={})
        fake.send_event({"jsonrpc": "2.0", "id": 2, "result": {}})
        assert (await client.next())["result"] == {}


async def test_an_error_in_the_words_of_the_protocol_is_passed_on_as_it_is() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"a batch"}}'
    fake = Fake(on_post=lambda request: (400, {}, body) if request.session else None)
    async with opened(fake) as client:
        client.send(**prompt())
        assert (await client.next())["error"] == {"code": -32600, "message": "a batch"}


async def test_long_complaints_are_cut() -> None:
    fake = Fake(on_post=lambda request: (400, {}, b"x" * 1_000_000) if request.session else None)
    async with opened(fake) as client:
        client.send(**prompt())
        assert len((await client.next())["error"]["data"]["body"]) == 8 * 1024


async def test_a_refused_notification_is_only_worth_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    fake = Fake(on_post=lambda request: (400, {}, b"") if request.message.get("method") == "bad" else None)
    with caplog.at_level(logging.WARNING):
        async with opened(fake) as client:
            client.send(method="bad")
            client.send(method="good")
            await until(lambda: len(fake.posts()) == 2)
    assert "rejected bad" in caplog.text


async def test_a_refused_error_without_an_id_is_only_worth_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    fake = Fake(on_post=lambda request: (400, {}, b"") if "error" in request.message else None)
    with caplog.at_level(logging.WARNING):
        async with opened(fake) as client:
            client.send(id=None, error={"code": -32700, "message": "not JSON"})
            client.send(method="good")
            await until(lambda: len(fake.posts()) == 2)
    assert "rejected an error without an id" in caplog.text


async def test_a_rejected_response_ends_the_connection_because_the_agent_would_wait_forever() -> None:
    fake = Fake(on_post=lambda request: (400, {}, b"") if "result" in request.message else None)
    async with opened(fake) as client:
        client.send(id=1, result={})
        with pytest.raises(ConnectionLost, match="rejected a response"):
            await client.next()


@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_a_server_that_forgot_us_ends_the_connection(status: int) -> None:
    fake = Fake(on_post=lambda request: (status, {}, b"") if request.message.get("method") == "x" else None)
    async with opened(fake) as client:
        client.send(id=1, method="x")
        with pytest.raises(ConnectionLost, match=f"HTTP {status}"):
            await client.next()
        with pytest.raises(ConnectionLost):
            client.send(id=2, method="y")


async def test_an_id_that_no_header_can_carry_fails_its_request_alone() -> None:
    fake = Fake()
    async with opened(fake) as client:
        for session in ("ü", "a\nb"):
            client.send(**prompt(session=session))
            assert "header" in (await client.next())["error"]["message"]


async def test_an_id_of_the_server_cannot_add_headers_to_a_request() -> None:
    body = rb'{"jsonrpc":"2.0","id":0,"result":{"connectionId":"c-7\r\nX-Injected: 1"}}'
    fake = Fake(on_post=lambda _: (200, {}, body))
    async with serving(fake) as address, HttpTransport(address) as transport:
        transport.send(INITIALIZE)
        with pytest.raises(ConnectionLost, match="named no connection"):
            await transport.receive()
    assert fake.gets() == []

    fake = Fake()
    async with opened(fake) as client:
        client.send(id=1, method="session/new")
        await until(lambda: len(fake.posts()) == 1)
        fake.send_event({"id": 1, "result": {"sessionId": "s-1\r\nX-Injected: 1"}})
        assert (await client.next())["id"] == 1
        client.send(id=2, method="x")
        await until(lambda: len(fake.posts()) == 2)
        assert [each.session for each in fake.gets()] == [None]
        assert not any("x-injected" in each.headers for each in fake.requests)


# Streams


@pytest.mark.parametrize("status", [404, 409])
async def test_an_event_stream_that_cannot_be_opened_affects_only_its_session(status: int) -> None:
    fake = Fake(on_get=lambda request: (status, {}, b"") if request.session else None)
    async with opened(fake) as client:
        client.send(id=1, method="session/load", params={"sessionId": "s-1"})
        if status == 404:  # there are servers that know a session only once it is loaded
            await until(lambda: len(fake.posts()) == 1)
            fake.send_event({"jsonrpc": "2.0", "id": 1, "result": {}})
            assert (await client.next())["result"] == {}
        else:
            assert "409" in (await client.next())["error"]["message"]
        assert not client.transport._is_ended


async def test_the_end_of_the_connections_stream_is_the_end_without_resuming() -> None:
    fake = Fake()
    async with opened(fake) as client:
        fake.stream().put_nowait(END)
        with pytest.raises(ConnectionLost, match="ended"):
            await client.next()


async def test_the_end_of_a_sessions_stream_fails_what_is_asked_there_and_the_next_message_opens_it_anew() -> None:
    fake = Fake()
    async with opened(fake) as client:
        client.send(**prompt(1))
        client.send(id=2, method="session/list", params={})
        await until(lambda: len(fake.posts()) == 2)
        fake.stream("s-1").put_nowait(END)
        failed = await client.next()
        assert (failed["id"], failed["error"]["code"]) == (1, -32603)
        client.send(**prompt(3))
        fake.send_event({"jsonrpc": "2.0", "id": 3, "result": {}}, "s-1")
        assert (await client.next())["id"] == 3
    assert len(fake.gets("s-1")) == 2


@pytest.mark.fault("HTT-27")
@pytest.mark.parametrize("ending", ["session/close", "session/delete"])
@pytest.mark.parametrize("opening", ["session/load", "session/resume"])
@pytest.mark.parametrize("grant", [None, GRANT])
async def test_the_stream_of_a_closed_session_is_left_and_opened_anew_with_the_session(
    ending: str, opening: str, grant: Json | None
) -> None:
    fake = Fake(grant=grant)
    number = None if grant is None else 1
    async with opened(fake) as client:
        client.send(id=1, method=ending, params={"sessionId": "s-1"})
        await until(lambda: len(fake.posts()) == 1)
        fake.send_event({"jsonrpc": "2.0", "id": 1, "result": {}}, "s-1", number)
        assert (await client.next())["id"] == 1
        fake.queues["s-1"] = asyncio.Queue()  # the server sends nothing more on the old stream, and does not end it
        await until(lambda: fake.left == ["s-1"])

        client.send(id=2, method=opening, params={"sessionId": "s-1"})
        await until(lambda: len(fake.posts()) == 2)
        fake.send_event({"jsonrpc": "2.0", "id": 2, "result": {}}, "s-1", number)
        assert (await client.next())["id"] == 2
    assert len(fake.gets("s-1")) == 2
    assert "last-event-id" not in fake.gets("s-1")[1].headers


@pytest.mark.fault("HTT-27")
async def test_updates_sent_before_a_session_was_closed_are_received_before_the_response() -> None:
    fake = Fake()
    async with opened(fake) as client:
        client.send(id=1, method="session/close", params={"sessionId": "s-1"})
        await until(lambda: len(fake.posts()) == 1)
        fake.send_event({"jsonrpc": "2.0", "id": 1, "result": None})
        fake.send_event({"n": 1}, "s-1")
        assert [(await client.next()).get("n") for _ in range(2)] == [1, None]
        await until(lambda: fake.left == ["s-1"])


@pytest.mark.fault("HTT-27")
async def test_a_session_that_could_not_be_closed_is_listened_to() -> None:
    fake = Fake()
    async with opened(fake) as client:
        client.send(id=1, method="session/close", params={"sessionId": "s-1"})
        await until(lambda: len(fake.posts()) == 1)
        fake.send_event({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "no"}}, "s-1")
        assert (await client.next())["id"] == 1
        fake.send_event({"n": 1}, "s-1")
        assert await client.next() == {"n": 1}
    assert len(fake.gets("s-1")) == 1


@pytest.mark.fault("HTT-27")
async def test_the_stream_of_a_closed_session_is_read_until_all_that_was_asked_there_is_answered() -> None:
    fake = Fake()
    async with opened(fake) as client:
        client.send(**prompt(1))
        client.send(id=2, method="session/close", params={"sessionId": "s-1"})
        await until(lambda: len(fake.posts()) == 2)
        fake.send_event({"jsonrpc": "2.0", "id": 2, "result": {}}, "s-1")
        assert (await client.next())["id"] == 2
        fake.send_event({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "cancelled"}}, "s-1")
        assert (await client.next())["result"] == {"stopReason": "cancelled"}
        await until(lambda: fake.left == ["s-1"])


@pytest.mark.fault("HTT-27")
async def test_requests_that_a_closed_session_never_answered_fail_when_it_is_opened_again() -> None:
    fake = Fake()
    async with opened(fake) as client:
        client.send(**prompt(1))
        client.send(id=2, method="session/close", params={"sessionId": "s-1"})
        await until(lambda: len(fake.posts()) == 2)
        fake.send_event({"jsonrpc": "2.0", "id": 2, "result": {}}, "s-1")
        assert (await client.next())["id"] == 2
        fake.queues["s-1"] = asyncio.Queue()
        client.send(id=3, method="session/load", params={"sessionId": "s-1"})
        failed = await client.next()
        assert (failed["id"], failed["error"]["code"]) == (1, -32603)
        fake.send_event({"jsonrpc": "2.0", "id": 3, "result": {}}, "s-1")
        assert (await client.next())["id"] == 3


@pytest.mark.fault("HTT-27")
async def test_a_session_that_is_closed_and_opened_in_one_breath_is_listened_to() -> None:
    fake = Fake()
    async with opened(fake) as client:
        client.send(id=1, method="session/close", params={"sessionId": "s-1"})
        client.send(id=2, method="session/load", params={"sessionId": "s-1"})
        await until(lambda: len(fake.posts()) == 2)
        for id in (1, 2):
            fake.send_event({"jsonrpc": "2.0", "id": id, "result": {}}, "s-1")
            assert (await client.next())["id"] == id
        fake.send_event({"n": 1}, "s-1")
        assert await client.next() == {"n": 1}
    assert len(fake.gets("s-1")) == 1


@pytest.mark.fault("HTT-27")
async def test_a_server_that_has_not_seen_us_leave_a_stream_is_asked_for_it_again() -> None:
    fake = Fake()
    fake.on_get = lambda request: (409, {}, b"") if request.session and len(fake.gets("s-1")) < 3 else None
    async with opened(fake) as client:
        client.send(id=1, method="session/load", params={"sessionId": "s-1"})
        await until(lambda: len(fake.posts()) == 1)
        fake.send_event({"jsonrpc": "2.0", "id": 1, "result": {}}, "s-1")
        assert (await client.next())["id"] == 1
    assert len(fake.gets("s-1")) == 3
    assert not any("last-event-id" in each.headers for each in fake.gets("s-1"))


async def test_a_response_that_is_no_event_stream_is_rejected() -> None:
    fake = Fake(on_get=lambda request: (200, {"content-type": "text/html"}, b"<html>"))
    async with opened(fake) as client:
        with pytest.raises(ConnectionLost, match="rejected an event stream"):
            await client.next()


async def test_an_event_over_the_limit_ends_the_connection() -> None:
    fake = Fake()
    async with opened(fake, max_message_bytes=1000) as client:
        fake.send_event({"text": "x" * 1000})
        with pytest.raises(MessageTooLarge):
            await client.next()


async def test_an_answer_over_the_limit_ends_the_connection() -> None:
    fake = Fake(on_post=lambda request: (200, {}, b"x" * 5000))
    async with serving(fake) as address, HttpTransport(address, max_message_bytes=1000) as transport:
        transport.send(INITIALIZE)
        with pytest.raises(MessageTooLarge):
            await transport.receive()


async def test_a_response_waits_for_earlier_events_of_another_stream() -> None:
    fake = Fake(grant=GRANT)
    async with opened(fake) as client:
        client.send(id=1, method="session/load", params={"sessionId": "s-1"})
        await until(lambda: len(fake.posts()) == 1)
        fake.send_event({"jsonrpc": "2.0", "id": 1, "result": {}}, number=1, after=2)
        fake.send_event({"jsonrpc": "2.0", "id": 2, "method": "other", "params": {}}, number=2)
        assert (await client.next())["method"] == "other"
        for number in (1, 2):
            fake.send_event({"n": number}, "s-1", number=number)
        assert [await client.next() for _ in range(3)] == [
            {"n": 1},
            {"n": 2},
            {"jsonrpc": "2.0", "id": 1, "result": {}},
        ]


async def test_an_answer_that_does_not_say_what_came_before_it_waits_until_the_replay_is_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "QUIET_SECONDS", 2.0)  # more than a busy machine needs for an event
    monkeypatch.setattr(event_stream, "LONGEST_QUIET_SECONDS", 60.0)
    fake = Fake()
    async with opened(fake) as client:
        client.send(id=1, method="session/load", params={"sessionId": "s-1"})
        await until(lambda: len(fake.posts()) == 1)
        fake.send_event({"jsonrpc": "2.0", "id": 1, "result": {}})
        for number in range(5):
            fake.send_event({"n": number}, "s-1")
            assert await client.next() == {"n": number}
        assert await client.next() == {"jsonrpc": "2.0", "id": 1, "result": {}}


# Cookies and pace


@pytest.mark.fault("HTT-19")
async def test_cookies_live_as_long_as_the_connection_and_are_few_and_small() -> None:
    fake = Fake(headers=[("set-cookie", "node=7; Path=/"), ("set-cookie", "big=" + "x" * 5000)])
    fake.headers += [("set-cookie", f"many{number}=1; Path=/") for number in range(100)]
    fake.headers += [("set-cookie", "theirs=1; Domain=evil.example; Path=/")]
    async with opened(fake) as client:
        client.send(method="hello")
        await until(lambda: len(fake.posts()) == 1)
        sent = fake.posts()[0].headers["cookie"].split("; ")
        assert "node=7" in sent
        assert len(sent) == 64
        assert not [each for each in sent if each.startswith(("big", "theirs"))]
    assert len(client.transport._client._cookies) == 0


async def test_a_server_that_takes_nothing_congests_and_then_ends_the_connection() -> None:
    hold = asyncio.Event()

    class Slow(Fake):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["method"] == "POST" and len(self.requests) > 1:
                await hold.wait()
            await super().__call__(scope, receive, send)

    async with opened(Slow(), max_queued_bytes=1_000_000) as client:
        await asyncio.sleep(0)
        client.send(method="first")
        while not client.transport.is_congested:
            client.send(method="x" * 100_000)
        assert client.transport.pending_bytes > 0
        with pytest.raises(OutputLimitExceeded):
            while True:
                client.send(method="x" * 100_000)
        with pytest.raises(OutputLimitExceeded):
            await client.transport.drain()
        hold.set()


async def test_a_flood_that_is_not_received_stays_in_the_network() -> None:
    fake = Fake()
    async with opened(fake) as client:
        for _ in range(256):
            fake.stream().put_nowait(b"data: " + b"x" * 65536 + b"\n\n")
        before = -1
        while before != fake.stream().qsize():
            before = fake.stream().qsize()
            await asyncio.sleep(0.1)
        assert before > 0
        frames = 0
        while frames < 256:
            frames += len(await client.transport.receive())


async def test_draining_ends_when_the_server_takes_more() -> None:
    fake = Fake()
    async with opened(fake) as client:
        while not client.transport.is_congested:
            client.send(method="x" * 100_000)
        await client.transport.drain()
        assert not client.transport.is_congested


async def test_a_post_that_breaks_is_the_end_without_resuming() -> None:
    fake = Fake()
    async with serving(fake) as address, CuttingProxy(urlsplit(address.url).port or 0).running() as proxy:
        async with HttpTransport(RemoteEndpoint.of(f"http://127.0.0.1:{proxy.port}/acp")) as transport:
            transport.send(INITIALIZE)
            await transport.receive()
            await until(lambda: len(fake.gets()) == 1)
            proxy.is_down = True
            proxy.cut()
            with pytest.raises(ConnectionLost):
                while await transport.receive():
                    transport.send(b'{"jsonrpc":"2.0","method":"x"}')


async def test_leaving_a_server_that_is_gone_takes_no_time() -> None:
    fake = Fake(grant=GRANT)
    async with serving(fake) as address, CuttingProxy(urlsplit(address.url).port or 0).running() as proxy:
        async with HttpTransport(RemoteEndpoint.of(f"http://127.0.0.1:{proxy.port}/acp"), retry=QUICK) as transport:
            transport.send(INITIALIZE)
            await transport.receive()
            proxy.is_down = True
            proxy.cut()
            async with asyncio.timeout(3):
                await transport.aclose()
    assert not [each for each in fake.requests if each.method == "DELETE"]


# Returning


async def test_posts_are_numbered_if_the_server_supports_resuming() -> None:
    fake = Fake(grant=GRANT)
    async with opened(fake) as client:
        for number in range(3):
            client.send(method=f"m{number}")
    assert [each.headers["duologue-message"] for each in fake.posts()] == ["1", "2", "3"]


@pytest.mark.fault("REC-06")
async def test_a_post_whose_answer_never_came_is_repeated_under_its_number() -> None:
    fake = Fake(grant=GRANT)
    limits = iter([0, 0, 0])
    async with serving(fake) as address, CuttingProxy(urlsplit(address.url).port or 0).running() as proxy:
        through = RemoteEndpoint.of(f"http://127.0.0.1:{proxy.port}/acp")
        async with HttpTransport(through, retry=QUICK) as transport:
            client = Client(transport)
            transport.send(INITIALIZE)
            await client.next()
            proxy.after_bytes = lambda: next(limits, 1_000_000)
            proxy.cut()
            client.send(method="once")
            client.send(method="twice")
            await until(lambda: fake.posts()[-1:] != [] and fake.posts()[-1].message["method"] == "twice")
    seen = [(each.message["method"], each.headers["duologue-message"]) for each in fake.posts()]
    assert len(seen) > 2
    assert set(seen) == {("once", "1"), ("twice", "2")}


async def test_a_busy_server_is_asked_again() -> None:
    fake = Fake(grant=GRANT)
    fake.on_post = lambda request: (
        (503, {}, b"") if request.message["method"] == "x" and len(fake.posts()) < 3 else None
    )
    async with opened(fake) as client:
        client.send(method="x")
    assert [each.headers["duologue-message"] for each in fake.posts()] == ["1", "1", "1"]


@pytest.mark.fault("REC-01", "REC-02")
async def test_a_broken_stream_goes_on_behind_the_last_event_and_what_comes_twice_is_dropped() -> None:
    fake = Fake(grant=GRANT)
    async with opened(fake) as client:
        fake.send_event({"n": 1}, number=1)
        fake.send_event({"n": 2}, number=2)
        fake.stream().put_nowait(b"id: 3\ndata: {")  # cut in the middle of an event
        fake.stream().put_nowait(END)
        assert [(await client.next())["n"] for _ in range(2)] == [1, 2]
        for number in (2, 3, 4):
            fake.send_event({"n": number}, number=number)
        assert [(await client.next())["n"] for _ in range(2)] == [3, 4]
    first, second = fake.gets()
    assert "last-event-id" not in first.headers
    assert second.headers["last-event-id"] == "2"


@pytest.mark.fault("REC-03")
async def test_a_gap_between_two_events_is_never_silent() -> None:
    fake = Fake(grant=GRANT)
    async with opened(fake) as client:
        fake.send_event({"n": 1}, number=1)
        fake.send_event({"n": 3}, number=3)
        assert await client.next() == {"n": 1}
        with pytest.raises(ResumeFailed, match="event 2"):
            await client.next()


@pytest.mark.fault("REC-03")
@pytest.mark.parametrize("status", [404, 410])
async def test_a_server_that_no_longer_has_what_we_missed_is_believed(status: int) -> None:
    fake = Fake(grant=GRANT, on_get=lambda request: (status, {}, b"") if "last-event-id" in request.headers else None)
    async with opened(fake) as client:
        fake.stream().put_nowait(END)
        with pytest.raises(ResumeFailed, match="load the session"):
            await client.next()


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_stream_is_not_tried_again(status: int) -> None:
    fake = Fake(grant=GRANT, on_get=lambda request: (status, {}, b"") if "last-event-id" in request.headers else None)
    async with opened(fake) as client:
        fake.stream().put_nowait(END)
        with pytest.raises(ConnectionLost, match=f"HTTP {status}"):
            await client.next()
    assert len(fake.gets()) == 2


async def test_a_stream_with_another_reader_is_requested_until_it_is_free() -> None:
    fake = Fake(grant=GRANT)
    fake.on_get = lambda request: (
        (409, {}, b"") if "last-event-id" in request.headers and len(fake.gets()) < 4 else None
    )
    async with opened(fake) as client:
        fake.stream().put_nowait(END)
        fake.send_event({"n": 1}, number=1)
        assert await client.next() == {"n": 1}
    assert len(fake.gets()) == 4


@pytest.mark.fault("REC-12")
@pytest.mark.parametrize("what", ["stream", "post"])
async def test_a_server_that_stays_away_is_reported_when_retries_end(what: str) -> None:
    fake = Fake(grant=GRANT)
    busy: Answer = (503, {}, b"")
    if what == "stream":
        fake.on_get = lambda request: busy if "last-event-id" in request.headers else None
    else:
        fake.on_post = lambda request: busy if request.message["method"] == "x" else None
    async with opened(fake, retry=RetryPolicy(first=0.01, longest=0.05, limit=0.3)) as client:
        if what == "stream":
            fake.stream().put_nowait(END)
        else:
            client.send(id=1, method="x")
        async with asyncio.timeout(60):
            with pytest.raises(ConnectionLost, match="503"):
                await client.next()


async def test_leaving_takes_no_longer_than_it_must() -> None:
    fake = Fake(on_post=lambda request: None)
    async with serving(fake) as address:
        transport = HttpTransport(address)
        await transport.aclose()
        with pytest.raises(ConnectionLost, match="not entered"):
            transport.send(b"{}")
        async with transport:
            transport.send(INITIALIZE)
            await transport.receive()
        await transport.aclose()
        assert await transport.receive() == []
        with pytest.raises(ConnectionLost, match="closed"):
            transport.send(b"{}")
