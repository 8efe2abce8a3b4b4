"""Streamable HTTP, with a client that only knows the proposal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from duologue import connect
from duologue.builtin.agent import builtin_agent
from duologue.transports.base import Transport
from duologue.transports.server.limits import Limits
from tests.transports.server.servers import (
    RESUME_REQUEST,
    TOKEN,
    Echo,
    Json,
    RawHttpClient,
    http_client_to,
    raw,
    running_server,
)

NEW: Json = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}


def request(id: int, method: str, **params: object) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


class Sessions(Echo):
    """Makes sessions `s1`, `s2`, … and tells numbers in them."""

    made = 0

    def answer(self, transport: Transport, message: Json) -> None:
        params: Json = message.get("params") or {}
        match message.get("method"):
            case "session/new":
                self.made += 1
                message["params"] = {"sessionId": f"s{self.made}"}
            case "tell":
                for number in range(params["to"]):
                    params_sent = {"sessionId": params["sessionId"], "n": number, "text": params.get("text")}
                    transport.send(json.dumps({"jsonrpc": "2.0", "method": "told", "params": params_sent}).encode())
            case "please ask":
                question = request(77, "question", sessionId=params["sessionId"])
                transport.send(json.dumps(question).encode())
            case _:
                pass
        super().answer(transport, message)


async def open_session(client: RawHttpClient) -> str:
    async with client.listen() as events:
        assert (await client.post(NEW)).status_code == 202
        answer = await events.next()
    session: str = answer["result"]["sessionId"]
    return session


async def test_an_agent_object_answers_a_plain_client() -> None:
    async with running_server(builtin_agent()) as server, http_client_to(server) as client:
        welcome = await client.initialize()
        session = await open_session(client)
        async with client.listen(session) as events:
            prompt = [{"type": "text", "text": "hello"}]
            posted = await client.post(request(2, "session/prompt", sessionId=session, prompt=prompt), session)
            messages = [await events.next()]
            while "result" not in messages[-1]:
                messages.append(await events.next())
        deleted = await client.delete()

    assert welcome["protocolVersion"] == 1
    assert welcome["_meta"] == {"steering": {"supported": True}}  # what the agent sends, and nothing of ours
    assert (posted.status_code, posted.content, deleted) == (202, b"", 202)
    assert messages[-1] == {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}}
    assert {message["params"]["sessionId"] for message in messages[:-1]} == {session}


async def test_each_answer_goes_where_its_question_was_asked() -> None:
    async with running_server(Sessions()) as server, http_client_to(server) as client:
        await client.initialize()
        session = await open_session(client)
        async with client.listen(last=1) as ours, client.listen(session) as its:
            await client.post(request(2, "session/list"))
            await client.post(request(3, "x", sessionId=session), session)
            await client.post(request(4, "session/load", sessionId=session), session)
            await client.post(request(5, "session/resume", sessionId=session), session)

            assert [((await ours.next())["id"], ours.after) for _ in range(2)] == [(2, None), (4, 1)]
            assert [((await its.next())["id"], its.last) for _ in range(2)] == [(3, 1), (5, 2)]


async def test_the_agents_questions_come_on_the_stream_of_their_session_and_are_answered_for_it() -> None:
    sessions = Sessions()
    async with running_server(sessions) as server, http_client_to(server) as client:
        await client.initialize()
        session = await open_session(client)
        async with client.listen(session) as events:
            await client.post(request(2, "please ask", sessionId=session), session)
            question = await events.next()
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": "yes"}
            wrong = await client.post(answer, "another")
            right = await client.post(answer, session)
            again = await client.post(answer, session)

    assert [one.status_code for one in (wrong, right, again)] == [400, 202, 202]
    assert json.loads(sessions.frames[-1]) == answer


async def test_a_client_that_omits_the_session_header_in_responses_and_before_it_has_one_is_served() -> None:
    """Known gap: the official Python SDK's client does this."""
    sessions = Sessions()
    async with running_server(sessions) as server, http_client_to(server) as client:
        await client.initialize()
        async with client.listen() as ours:
            await client.post(request(1, "session/resume", sessionId="kept"))
            assert (await ours.next())["id"] == 1
            async with client.listen("kept") as its:
                await client.post(request(2, "please ask", sessionId="kept"), "kept")
                answer = {"jsonrpc": "2.0", "id": (await its.next())["id"], "result": "yes"}
                assert (await client.post(answer)).status_code == 202
            nameless = await client.post(request(3, "please ask", sessionId="kept"))

    assert nameless.status_code == 400
    assert json.loads(sessions.frames[-1]) == answer


@pytest.mark.fault("HTT-15")
async def test_events_wait_for_their_reader_up_to_the_limit_and_a_gap_is_reported() -> None:
    async with running_server(Sessions(), Limits(window_frames=10)) as server, http_client_to(server) as client:
        await client.initialize()
        session = await open_session(client)
        await client.post(request(2, "tell", sessionId=session, to=5), session)
        async with client.listen(session) as events:
            numbers = [(await events.next())["params"]["n"] for _ in range(5)]
            await events.next()
        await client.post(request(3, "tell", sessionId=session, to=50), session)
        async with client.listen(session) as late:
            lost = late.status, json.loads(await late.response.aread())
        async with client.listen(session) as anew:
            await client.post(request(4, "tell", sessionId=session, to=1), session)
            fresh = await anew.next()

    assert numbers == list(range(5))
    assert lost == (
        410,
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "history lost, load the session"}},
    )
    assert fresh["params"]["n"] == 0


async def test_events_are_numbered_and_sent_again_after_the_last_event_id() -> None:
    async with running_server(Sessions()) as server, http_client_to(server) as client:
        await client.initialize()
        session = await open_session(client)
        await client.post(request(2, "tell", sessionId=session, to=9), session)
        async with client.listen(session) as events:
            seen = [(await events.next())["params"]["n"] for _ in range(5)]
            position = events.last
        async with client.listen(session, last=3) as events:
            again = [(await events.next())["params"]["n"] for _ in range(6)]
            last = await events.next()

    assert (seen, position) == ([0, 1, 2, 3, 4], 5)
    assert again == [3, 4, 5, 6, 7, 8]
    assert last["id"] == 2


@pytest.mark.fault("HTT-14")
async def test_a_stream_has_one_reader_and_a_resuming_one_replaces_it() -> None:
    async with running_server(Sessions()) as server, http_client_to(server) as client:
        await client.initialize()
        async with client.listen() as first, client.listen() as second, client.listen(last=0) as third:
            await client.post(NEW)

            assert (first.status, second.status, third.status) == (200, 409, 200)
            assert (await third.next())["id"] == 1
            assert await first.ended()


async def test_a_stream_for_a_session_that_is_not_there_yet_is_empty() -> None:
    async with running_server(Sessions()) as server, http_client_to(server) as client:
        await client.initialize()
        async with client.listen("s1") as events:
            session = await open_session(client)
            await client.post(request(2, "tell", sessionId=session, to=1), session)

            assert (await events.next())["params"]["n"] == 0


@pytest.mark.fault("HTT-07")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("[]", -32600),
        (f"[{json.dumps(NEW)}]", -32600),
        ("nonsense", -32700),
        (b"\xff", -32700),
        ('{"jsonrpc":"1.0"}', -32600),
    ],
)
async def test_an_invalid_message_is_answered_with_400(body: str | bytes, code: int) -> None:
    sessions = Sessions()
    async with running_server(sessions) as server, http_client_to(server) as client:
        await client.initialize()
        response = await client.post(body)

    assert (response.status_code, response.json()["error"]["code"], response.json()["id"]) == (400, code, None)
    assert len(sessions.frames) == 1


async def test_an_error_without_an_id_reaches_the_agent() -> None:
    sessions, error = Sessions(), {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "not JSON"}}
    async with running_server(sessions) as server, http_client_to(server) as client:
        await client.initialize()
        accepted = await client.post(error)
        refused = await client.post({"jsonrpc": "2.0", "id": None, "result": {}})

    assert (accepted.status_code, refused.status_code) == (202, 400)
    assert json.loads(sessions.frames[-1]) == error


@pytest.mark.fault("HTT-08")
async def test_a_connection_is_usable_only_by_the_caller_that_opened_it() -> None:
    async with (
        running_server(Echo(), authenticate={"one": "ann", "two": "bob"}.get) as server,
        http_client_to(server, "one") as ann,
        http_client_to(server, "two") as bob,
    ):
        await ann.initialize()
        missing = await bob.post(request(1, "x"))
        bob.id = ann.id
        foreign = await bob.post(request(1, "x"))
        foreign_stream = await bob.client.get(
            bob.url, headers={"Accept": "text/event-stream", "Acp-Connection-Id": ann.id}
        )
        foreign_end = await bob.delete()
        bob.id = "unknown"
        unknown = await bob.post(request(1, "x"))
        still = await ann.post(request(1, "x"))
        await ann.delete()
        closed = await ann.post(request(2, "x"))

    assert [r.status_code for r in (missing, foreign, foreign_stream, unknown, still, closed)] == [
        400,
        404,
        404,
        404,
        202,
        404,
    ]
    assert foreign_end == 404
    assert foreign.content == unknown.content


@pytest.mark.fault("HTT-09")
async def test_the_session_of_a_message_stands_in_its_header() -> None:
    async with running_server(Sessions()) as server, http_client_to(server) as client, http_client_to(server) as other:
        await client.initialize()
        await other.initialize()
        session = await open_session(client)
        theirs = await open_session(other)
        message = request(2, "session/prompt", sessionId=session)
        answers = [
            await client.post(message),
            await client.post(request(3, "session/prompt", sessionId="nowhere"), "nowhere"),
            await client.post(request(4, "session/prompt", sessionId=theirs), theirs),
            await client.post(message, theirs),
            await client.post(message, "x" * 2000),
            await client.post(request(5, "session/load", sessionId="nowhere"), "nowhere"),
            await client.post(message, session),
        ]

    assert [answer.status_code for answer in answers] == [400, 404, 404, 400, 400, 202, 202]
    assert answers[1].content == answers[2].content


@pytest.mark.fault("HTT-09")
@pytest.mark.parametrize("name", ["Acp-Connection-Id", "Acp-Session-Id", "Duologue-Message", "Content-Type"])
async def test_a_header_that_routes_a_message_is_there_once(name: str) -> None:
    """Of two the one that a proxy reads may be another than the one that we read."""
    async with running_server(Sessions()) as server, http_client_to(server) as client:
        await client.initialize()
        session = await open_session(client)
        once = {"Acp-Connection-Id": client.id, "Acp-Session-Id": session, "Duologue-Message": "9"}
        headers = [*once.items(), ("Content-Type", "application/json")]
        body = json.dumps(request(2, "session/prompt", sessionId=session))
        twice = await client.client.post(server.http, content=body, headers=[*headers, (name, dict(headers)[name])])
        fine = await client.client.post(server.http, content=body, headers=headers)

    assert (twice.status_code, fine.status_code) == (400, 202)


@pytest.mark.fault("HTT-06")
async def test_the_wrong_form_has_its_own_answer() -> None:
    async with running_server(Echo()) as server, http_client_to(server) as client:
        await client.initialize()
        named = {"Acp-Connection-Id": client.id}
        http = client.client
        body = json.dumps(NEW)
        statuses = [
            (await http.post(server.http, content=body, headers={**named, "Content-Type": "text/plain"})).status_code,
            (await http.post(server.http, content=body, headers=named)).status_code,
            (await http.get(server.http, headers=named)).status_code,
            (await http.get(server.http, headers={**named, "Accept": "application/json"})).status_code,
            (await http.put(server.http, content=body, headers=named)).status_code,
            (await http.options(server.http)).status_code,
            (await http.get(f"{server.base}/elsewhere")).status_code,
            (await http.post(f"{server.base}/health")).status_code,
        ]

    assert statuses == [415, 415, 406, 406, 405, 405, 404, 405]


async def test_initialize_comes_first_once_and_as_a_request() -> None:
    async with running_server(Echo()) as server, http_client_to(server) as client:
        as_notification = await client.post({"jsonrpc": "2.0", "method": "initialize", "params": {}})
        await client.initialize()
        again = await client.post(request(1, "initialize"))

    assert (as_notification.status_code, again.status_code) == (400, 400)


async def test_an_agent_that_says_nothing_or_ends_at_once_is_no_agent(caplog: pytest.LogCaptureFixture) -> None:
    class Silent(Echo):
        def answer(self, transport: Transport, message: Json) -> None: ...

    class Broken(Echo):
        def answer(self, transport: Transport, message: Json) -> None:
            raise RuntimeError("broken")

    async with running_server(Silent(), Limits(init_seconds=0.05)) as server, http_client_to(server) as client:
        silent = await client.post(request(0, "initialize"))
    async with running_server(Broken()) as server, http_client_to(server) as client:
        broken = await client.post(request(0, "initialize"))

    assert (silent.status_code, silent.json()["error"]["code"]) == (504, -32603)
    assert (broken.status_code, broken.json()["error"]["code"]) == (500, -32603)


@pytest.mark.fault("HTT-17")
async def test_deleting_a_connection_ends_its_streams_and_cancels_its_turn() -> None:
    agent = builtin_agent()
    async with running_server(agent) as server, http_client_to(server) as client, http_client_to(server) as later:
        await client.initialize()
        session = await open_session(client)
        async with client.listen(last=1) as ours, client.listen(session) as its:
            prompt = [{"type": "text", "text": "/cancel-me"}]
            await client.post(request(2, "session/prompt", sessionId=session, prompt=prompt), session)
            await its.next()

            assert await client.delete() == 202
            assert await ours.ended()
            async with asyncio.timeout(60):
                while session in agent._open_sessions:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        await later.initialize()
        async with later.listen() as events, later.listen(session):
            await later.post(request(1, "session/load", sessionId=session, cwd="/", mcpServers=[]), session)

            assert "result" in await events.next()


@pytest.mark.fault("REC-06")
async def test_a_message_that_is_posted_twice_is_done_once() -> None:
    sessions = Sessions()
    async with running_server(sessions) as server, http_client_to(server) as client:
        await client.initialize(RESUME_REQUEST)
        statuses = [
            (await client.post(request(number, "x"), Duologue_Message=str(number))).status_code
            for number in (1, 3, 1, 2, 3, 2, 4)
        ]
        bad = [
            (await client.post(request(9, "x"), Duologue_Message=bad)).status_code for bad in ("0", "-1", "x", "1_0")
        ]

    assert statuses == [202] * 7
    assert bad == [400] * 4
    assert [json.loads(frame)["id"] for frame in sessions.frames[1:]] == [1, 3, 2, 4]


async def test_an_event_is_one_line_whatever_the_agent_writes() -> None:
    class Pretty(Sessions):
        def answer(self, transport: Transport, message: Json) -> None:
            if message["method"] == "pretty":
                transport.send(b'{"jsonrpc":"2.0",\r\n"method":"x",\r"params":"\\r\\n"}')
            else:
                super().answer(transport, message)

    async with running_server(Pretty()) as server, http_client_to(server) as client:
        await client.initialize()
        async with client.listen() as events:
            await client.post(request(1, "pretty"))

            assert (await events.next())["params"] == "\r\n"


async def test_a_silent_stream_shows_that_it_is_alive() -> None:
    async with running_server(Echo(), Limits(keepalive_seconds=0.02)) as server, http_client_to(server) as client:
        await client.initialize()
        async with client.listen() as events:
            lines = events.response.aiter_lines()
            comments = [await anext(lines) for _ in range(6)]

    assert set(comments) == {":", ""}


@pytest.mark.fault("HTT-10")
@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ("Content-Length: 10001", b"", 413),
        ("Transfer-Encoding: chunked", b"2711\r\n" + b" " * 10_001, 413),
        ("Content-Length: 10\r\nContent-Encoding: gzip", b"", 415),
    ],
)
async def test_a_body_over_the_limit_is_refused_before_it_is_read(headers: str, body: bytes, status: int) -> None:
    async with running_server(Echo(), Limits(message_bytes=10_000)) as server:
        head = (
            f"POST /acp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json"
        )
        answer = await raw(server, f"{head}\r\n{headers}\r\n\r\n".encode() + body)

    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


async def test_a_body_that_never_ends_is_not_waited_for() -> None:
    async with running_server(Echo(), Limits(body_seconds=0.05)) as server:
        head = (
            f"POST /acp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json"
        )
        answer = await raw(server, f"{head}\r\nContent-Length: 10\r\n\r\nx".encode())

    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_streams_of_one_connection_are_limited() -> None:
    async with running_server(Echo(), Limits(streams=2)) as server, http_client_to(server) as client:
        await client.initialize()
        statuses: list[int] = []
        for name in ("a", "b", "c"):
            async with client.listen(name) as events:
                statuses.append(events.status)

    assert statuses == [200, 200, 429]


async def test_the_stream_of_a_closed_session_makes_room_for_another_and_that_of_an_open_one_does_not() -> None:
    async with running_server(Sessions(), Limits(streams=3)) as server, http_client_to(server) as client:
        await client.initialize()
        async with client.listen() as ours:
            for number in (1, 2):
                await client.post(NEW)
                assert (await ours.next())["result"]["sessionId"] == f"s{number}"
            async with client.listen("s1") as first, client.listen("s2") as second:
                await client.post(request(5, "session/close", sessionId="s1"), "s1")
                assert (await first.next())["id"] == 5
                await client.post(NEW)
                assert (await ours.next())["result"]["sessionId"] == "s3"
                async with client.listen("s3") as third:
                    assert third.status == 200
                    assert await first.ended()
                    await client.post(request(6, "tell", sessionId="s2", to=1), "s2")
                    assert (await second.next())["params"]["n"] == 0


@pytest.mark.fault("HTT-27")
async def test_a_closed_session_that_is_opened_again_has_a_stream_that_begins_anew() -> None:
    async with running_server(Sessions()) as server, http_client_to(server) as client:
        await client.initialize(RESUME_REQUEST)
        session = await open_session(client)
        async with client.listen(session) as old:
            for id, method in ((2, "x"), (3, "session/close")):
                await client.post(request(id, method, sessionId=session), session)
                assert (await old.next())["id"] == id
            async with client.listen(session) as new:
                assert new.status == 200
                assert await old.ended()
                await client.post(request(4, "session/resume", sessionId=session), session)
                assert ((await new.next())["id"], new.last) == (4, 1)
            async with client.listen(session, last=0) as again:
                assert ((await again.next())["id"], again.last) == (4, 1)


@pytest.mark.fault("HTT-27")
async def test_a_client_that_missed_the_response_to_closing_a_session_still_gets_it() -> None:
    async with running_server(Sessions()) as server, http_client_to(server) as client:
        await client.initialize(RESUME_REQUEST)
        session = await open_session(client)
        async with client.listen(session) as events:
            await client.post(request(2, "session/close", sessionId=session), session)
            assert (await events.next())["id"] == 2
        async with client.listen(session, last=0) as events:
            assert ((await events.next())["id"], events.last) == (2, 1)


@pytest.mark.fault("HTT-27")
async def test_our_client_may_close_and_reopen_more_sessions_than_a_connection_has_streams(tmp_path: Path) -> None:
    async with (
        running_server(builtin_agent(), Limits(streams=3)) as server,
        connect(server.http, token=TOKEN) as agent,
    ):
        for _ in range(8):
            session = await agent.new_session(tmp_path)
            await session.prompt("/plan")
            await session.aclose()
            loaded = await agent.load_session(session.id, tmp_path)
            assert [message.role for message in loaded.transcript.messages] == ["user", "agent"]
            await loaded.aclose()
            resumed = await agent.resume_session(session.id, tmp_path)
            assert (await resumed.prompt("/plan")).stop_reason == "end_turn"
            await resumed.aclose()


class Batching(Sessions):
    """Sends frames of several sessions at once, in different spellings."""

    def answer(self, transport: Transport, message: Json) -> None:
        if message.get("method") == "batch":
            transport.send_many([frame.encode() for frame in message["params"]["frames"]])
        super().answer(transport, message)


async def test_a_batch_is_divided_among_the_streams_of_its_sessions() -> None:
    def update(session: str, number: int) -> str:
        params = f'{{"sessionId":"{session}","n":{number}}}'
        return f'{{"jsonrpc":"2.0","method":"session/update","params":{params}}}'

    def spaced(session: str, number: int) -> str:
        return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"n": number, "sessionId": session}})

    escaped = update("\\u0073\\u0031", 6)  # s1
    asking = '{"jsonrpc":"2.0","method":"ask","params":{"sessionId":"s2","n":7},"id":8}'
    frames = [update("s1", 0), update("s1", 1), update("s2", 2), spaced("s2", 3), update("s1", 4), update("s11", 5)]
    frames += [escaped, asking, update("s1", 9).replace('"n"', '\r"n"'), update("s2", 10)]
    async with running_server(Batching()) as server, http_client_to(server) as client:
        await client.initialize()
        sessions = [await open_session(client) for _ in range(1)]
        async with client.listen(last=1) as ours:
            await client.post(NEW)
            sessions.append((await ours.next())["result"]["sessionId"])
            await client.post(request(3, "batch", frames=frames))
            async with client.listen("s1") as first, client.listen("s2") as second, client.listen("s11") as third:
                numbers = {
                    "s1": [(await first.next())["params"]["n"] for _ in range(5)],
                    "s2": [(await second.next())["params"]["n"] for _ in range(4)],
                    "s11": [(await third.next())["params"]["n"] for _ in range(1)],
                }
                answered = await client.post({"jsonrpc": "2.0", "id": 8, "result": {}}, "s2")

    assert sessions == ["s1", "s2"]
    assert numbers == {"s1": [0, 1, 4, 6, 9], "s2": [2, 3, 7, 10], "s11": [5]}
    assert answered.status_code == 202
