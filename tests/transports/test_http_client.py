"""The HTTP client against servers that a test controls byte by byte."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from duologue.errors import MessageTooLarge
from duologue.transports.remote import http_client, http_connection
from duologue.transports.remote.http_client import HttpClient
from duologue.transports.remote.http_connect import HttpConnector
from duologue.transports.remote.http_connection import HttpConnection, HttpError, HttpRequest
from duologue.transports.remote.url import RemoteEndpoint
from tests.transports.waiting import until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HANG: None = None
"""In place of bytes: the server keeps the connection open and sends nothing more."""


class Scripted:
    """Answer each request of each connection with the next bytes, and close the connection after the last."""

    def __init__(self, *connections: Sequence[bytes | None]) -> None:
        self.port = 0
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.accepted = self.ended = 0
        self._connections = connections

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers = self._connections[min(self.accepted, len(self._connections) - 1)]
        self.accepted += 1
        try:
            for answer in answers:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next((line[15:] for line in head.split("\r\n") if line.startswith("content-length:")), "0")
                self.heads.append(head)
                self.bodies.append(await reader.readexactly(int(length)))
                if answer is None:
                    await reader.read()
                else:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self.ended += 1

    async def until_ended(self) -> None:
        await until(lambda: self.ended == self.accepted)


@asynccontextmanager
async def reached(
    scripted: Scripted, *, path: str = "/acp", headers: dict[str, str] | None = None, max_bytes: int = 10_000
) -> AsyncGenerator[HttpClient]:
    async with asyncio.timeout(60), await asyncio.start_server(scripted.serve, "127.0.0.1", 0) as server:
        scripted.port = server.sockets[0].getsockname()[1]
        client = HttpClient(RemoteEndpoint.of(f"http://127.0.0.1:{scripted.port}{path}", headers=headers), max_bytes)
        try:
            yield client
        finally:
            await client.aclose()
            await scripted.until_ended()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def test_a_body_that_was_not_read_is_not_read_as_part_of_the_next_response() -> None:
    conflict = b"HTTP/1.1 409 Conflict\r\nContent-Length: 5\r\n\r\nstale"
    async with reached(Scripted([conflict, OK], [OK])) as client:
        async with client.events({}, 5) as response:
            assert response.status == 409
        assert (await client.request("GET", {})).body == b"ok"


async def test_one_connection_carries_one_request_after_the_other() -> None:
    scripted = Scripted([OK, OK, OK])
    async with reached(scripted) as client:
        answers = [await client.request("POST", {"X-Number": str(number)}, b"body") for number in range(3)]

    assert [(answer.status, answer.body) for answer in answers] == [(200, b"ok")] * 3
    assert scripted.accepted == 1
    assert scripted.bodies == [b"body"] * 3


async def test_a_path_and_a_query_are_sent_as_a_server_can_read_them() -> None:
    scripted = Scripted([OK])
    async with reached(scripted, path="/agents of mine/ä?tenant=a b&x=%20") as client:
        await client.request("GET", {})

    assert scripted.heads[0].startswith("GET /agents%20of%20mine/%C3%A4?tenant=a%20b&x=%20 HTTP/1.1\r\n")


async def test_the_headers_of_the_user_come_before_those_of_the_client() -> None:
    scripted = Scripted([OK])
    async with reached(scripted, headers={"Host": "agents.example", "User-Agent": "mine", "X-Extra": "1"}) as client:
        await client.request("GET", {})

    lines = scripted.heads[0].lower().split("\r\n")
    assert {"host: agents.example", "user-agent: mine", "x-extra: 1"} <= set(lines)
    assert sum(line.startswith(("host:", "user-agent:")) for line in lines) == 2


@pytest.mark.parametrize("name", ["two words", "colon:", "", "ä"])
async def test_a_header_that_would_break_the_request_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="no header that can be sent"):
        HttpClient(RemoteEndpoint.of("http://h", headers={name: "x"}), 100)


async def test_interim_responses_are_skipped() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    async with reached(Scripted([interim + OK])) as client:
        answer = await client.request("POST", {}, b"x")

    assert (answer.status, answer.body, dict(answer.headers)) == (200, b"ok", {"content-length": "2"})


async def test_a_body_may_end_with_its_connection() -> None:
    scripted = Scripted([b"HTTP/1.1 200 OK\r\n\r\nall of it"], [OK])
    async with reached(scripted) as client:
        first = await client.request("GET", {})
        await client.request("GET", {})

    assert first.body == b"all of it"
    assert scripted.accepted == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
    ],
)
async def test_a_response_that_is_cut_off_is_an_error(answer: bytes) -> None:
    async with reached(Scripted([answer])) as client:
        with pytest.raises(HttpError, match="closed the connection"):
            await client.request("GET", {})


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    ],
)
async def test_an_invalid_response_is_an_error(answer: bytes) -> None:
    async with reached(Scripted([answer])) as client:
        with pytest.raises(HttpError, match="no valid HTTP response"):
            await client.request("GET", {})


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX: ",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    ],
)
async def test_headers_trailers_and_chunk_sizes_without_end_are_not_collected(head: bytes) -> None:
    async with reached(Scripted([head + b"x" * (http_connection.MAX_HEAD_BYTES * 2)])) as client:
        with pytest.raises(HttpError, match="exceed the limit of 262144 bytes"):
            await client.request("GET", {})


async def test_trailers_are_no_headers() -> None:
    chunks = b"2\r\nok\r\n0\r\nAcp-Connection-Id: forged\r\n\r\n"
    async with reached(Scripted([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks])) as client:
        answer = await client.request("GET", {})

    assert (answer.body, answer.connection_id) == (b"ok", None)


async def test_a_second_response_to_one_request_is_not_the_next_one() -> None:
    scripted = Scripted([OK + OK.replace(b"ok", b"no"), HANG], [OK])
    async with reached(scripted) as client:
        assert [(await client.request("GET", {})).body for _ in range(2)] == [b"ok", b"ok"]
    assert scripted.accepted == 2


async def test_a_server_that_is_silent_for_too_long_is_an_error() -> None:
    async with reached(Scripted([HANG])) as client:
        with pytest.raises(HttpError, match=r"silent for 0\.05 s"):
            await client.request("GET", {}, seconds=0.05)


async def test_a_server_that_is_silent_in_the_middle_of_a_response_is_an_error() -> None:
    async with reached(Scripted([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1", HANG])) as client:
        with pytest.raises(HttpError, match=r"silent for 0\.05 s"):
            await client.request("GET", {}, seconds=0.05)


async def test_a_long_response_is_an_error_and_a_long_error_is_cut() -> None:
    answer = b"HTTP/1.1 %d X\r\nContent-Length: 20000\r\n\r\n" + b"x" * 20_000
    async with reached(Scripted([answer % 200, answer % 500], [answer % 500])) as client:
        with pytest.raises(MessageTooLarge, match="limit of 10000 bytes"):
            await client.request("GET", {})
        failed = await client.request("GET", {})

    assert (failed.status, len(failed.body)) == (500, 8192)


async def test_a_plain_request_tells_its_proxy_the_whole_url_and_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted([OK])
    async with asyncio.timeout(60), await asyncio.start_server(scripted.serve, "127.0.0.1", 0) as server:
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{server.sockets[0].getsockname()[1]}")
        client = HttpClient(RemoteEndpoint.of("http://agents.example:81/acp"), 100)
        await client.request("GET", {})
        await client.aclose()
        await scripted.until_ended()

    lines = scripted.heads[0].split("\r\n")
    assert lines[0] == "GET http://agents.example:81/acp HTTP/1.1"
    assert "host: agents.example:81" in lines
    assert f"proxy-authorization: Basic {base64.b64encode(b'me:p@ss').decode()}" in lines


async def test_a_proxy_that_rejects_a_tunnel_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted([b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"])
    async with asyncio.timeout(60), await asyncio.start_server(scripted.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{port}")
        client = HttpClient(RemoteEndpoint.of("https://agents.example/acp", headers={"X-Mine": "1"}), 100)
        with pytest.raises(HttpError, match=f"proxy 127.0.0.1:{port} rejects the connection: HTTP 407"):
            await client.request("GET", {})
        await client.aclose()
        await scripted.until_ended()

    assert scripted.heads[0].startswith("CONNECT agents.example:443 HTTP/1.1\r\n")
    assert "x-mine" not in scripted.heads[0].lower()


class Draining(asyncio.Transport):
    """A connection whose server reads a little of the request between two looks at the buffer, and says nothing."""

    def __init__(self, unwritten: int) -> None:
        super().__init__()
        self.unwritten = unwritten

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        self.unwritten = max(self.unwritten - 1, 0)
        return self.unwritten

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass


async def test_a_request_that_takes_long_to_send_does_not_fail_while_the_server_reads_it() -> None:
    connection, transport = HttpConnection(), Draining(5)
    connection.connection_made(transport)
    with pytest.raises(HttpError, match="silent"):
        await connection.send(HttpRequest("POST", "http", "h", "/", [], b"x"), 0.01)
    assert transport.unwritten == 0


async def test_a_server_that_is_silent_after_its_reader_was_slow_is_an_error() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n"
    async with reached(Scripted([head + b"x" * 600_000, HANG])) as client:
        async with client.events({}, 0.05) as response:
            await asyncio.sleep(0.2)  # longer than the server may be silent; the connection does not read now
            size = 0
            with pytest.raises(HttpError, match="silent"):
                while True:
                    size += len(await response.read())
    assert size == 600_000


async def test_a_connection_is_not_used_again_before_the_last_request_was_sent() -> None:
    accepted, ended = 0, asyncio.Event()

    async def reject_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        if accepted == 1:
            await ended.wait()  # without reading the body
        writer.close()

    async with asyncio.timeout(60), await asyncio.start_server(reject_early, "127.0.0.1", 0) as server:
        client = HttpClient(RemoteEndpoint.of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"), 100)
        await client.request("POST", {}, b"x" * 50_000_000)
        assert (await client.request("GET", {}, seconds=1)).body == b"ok"
        ended.set()
        await client.aclose()
    assert accepted == 2


async def test_a_long_body_is_no_credit_for_long_trailers() -> None:
    size = 2 * http_connection.MAX_HEAD_BYTES
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = head + b"%x\r\n%b\r\n0\r\nX: " % (size, b"x" * size) + b"y" * (4 * size)
    async with reached(Scripted([answer]), max_bytes=10 * size) as client:
        with pytest.raises(HttpError, match="exceed the limit of 262144 bytes"):
            await client.request("GET", {})


async def test_many_chunks_of_one_byte_are_a_valid_body() -> None:
    chunks = b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    async with reached(Scripted([answer]), max_bytes=100_000) as client:
        assert (await client.request("GET", {})).body == b"x" * 100_000


@pytest.mark.parametrize("value", ["a\r\nX-Injected: 1", "a\nb", "ü"])
async def test_a_header_of_one_request_cannot_contain_another(value: str) -> None:
    scripted = Scripted([OK])
    async with reached(scripted) as client:
        with pytest.raises(HttpError, match="cannot be sent"):
            await client.request("GET", {"Acp-Session-Id": value})
    assert scripted.heads == []


async def test_a_host_that_cannot_exist_cannot_be_reached() -> None:
    client = HttpClient(RemoteEndpoint.of("http://a..b/acp"), 100)
    with pytest.raises(HttpError):
        await client.request("GET", {})
    await asyncio.get_running_loop().shutdown_default_executor()


@pytest.mark.parametrize("listed", ["127.0.0.1", "127.0.0.1:{port}"])
async def test_an_endpoint_in_no_proxy_is_reached_directly(monkeypatch: pytest.MonkeyPatch, listed: str) -> None:
    async with asyncio.timeout(60), await asyncio.start_server(Scripted([OK]).serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        monkeypatch.setenv("no_proxy", listed.format(port=port))
        client = HttpClient(RemoteEndpoint.of(f"http://127.0.0.1:{port}/acp"), 100)
        assert (await client.request("GET", {})).body == b"ok"
        await client.aclose()


async def test_an_address_of_ip_version_6_in_no_proxy_needs_no_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    for listed in ("::1", "[::1]", "[::1]:81"):
        monkeypatch.setenv("no_proxy", listed)
        assert HttpConnector(RemoteEndpoint.of("http://[::1]:81/acp")).forwarder is None
    monkeypatch.setenv("no_proxy", "[::1]:82")
    assert HttpConnector(RemoteEndpoint.of("http://[::1]:81/acp")).forwarder is not None


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_a_response_without_a_body_is_followed_by_the_next(status: bytes) -> None:
    scripted = Scripted([b"HTTP/1.1 %b\r\n\r\n" % status, b"HTTP/1.1 %b\r\nContent-Length: 5\r\n\r\n" % status, OK])
    async with reached(scripted) as client:
        assert [(await client.request("GET", {})).body for _ in range(3)] == [b"", b"", b"ok"]
    assert scripted.accepted == 1


async def test_interim_responses_without_end_are_an_error() -> None:
    async with reached(Scripted([b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20_000])) as client:
        with pytest.raises(HttpError, match="exceed the limit"):
            await client.request("GET", {})


async def test_a_post_on_a_connection_that_the_server_closes_is_an_error_and_not_sent_twice() -> None:
    scripted = Scripted([OK, b""], [OK])
    async with reached(scripted) as client:
        await client.request("POST", {}, b"first")
        with pytest.raises(HttpError, match="closed the connection"):
            await client.request("POST", {}, b"second")
    assert scripted.bodies == [b"first", b"second"]


@pytest.mark.parametrize("answer", [HANG, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12"])
async def test_a_connection_whose_request_was_cancelled_is_closed_and_not_used_again(answer: bytes | None) -> None:
    scripted = Scripted([OK, answer, HANG], [OK])
    async with reached(scripted) as client:
        await client.request("GET", {})
        task = asyncio.create_task(client.request("GET", {}))
        await until(lambda: len(scripted.heads) == 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: scripted.ended == 1)
        assert (await client.request("GET", {})).body == b"ok"


async def test_a_get_is_sent_again_if_the_server_closed_the_idle_connection_in_that_moment() -> None:
    scripted = Scripted([OK, b""], [OK])
    async with reached(scripted) as client:
        await client.request("GET", {})
        async with client.events({}, 5) as response:
            assert (response.status, await response.read()) == (200, b"ok")

    assert scripted.accepted == 2


async def test_a_post_is_not_sent_again() -> None:
    scripted = Scripted([OK, b""], [OK])
    async with reached(scripted) as client:
        await client.request("GET", {})
        with pytest.raises(HttpError, match="closed the connection"):
            await client.request("POST", {}, b"once")

    assert scripted.bodies.count(b"once") == 1


async def test_a_get_whose_response_had_begun_is_not_sent_again() -> None:
    scripted = Scripted([OK, b"HTTP/1.1 200"], [OK])
    async with reached(scripted) as client:
        await client.request("GET", {})
        with pytest.raises(HttpError, match="closed the connection"):
            await client.request("GET", {})

    assert scripted.accepted == 1


async def test_a_request_waits_while_too_many_others_wait_for_their_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_REQUESTS", 2)
    scripted = Scripted([HANG], [HANG], [OK])
    async with reached(scripted) as client:
        first, second = [asyncio.ensure_future(client.request("POST", {}, b"x")) for _ in range(2)]
        await until(lambda: len(scripted.heads) == 2)
        third = asyncio.ensure_future(client.request("POST", {}, b"y"))
        await asyncio.sleep(0)
        assert scripted.accepted == 2
        first.cancel()
        assert (await third).status == 200
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)


async def test_a_request_does_not_wait_forever_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_REQUESTS", 1)
    monkeypatch.setattr(http_client, "SEND_SECONDS", 0.05)
    scripted = Scripted([HANG])
    async with reached(scripted) as client:
        first = asyncio.ensure_future(client.request("POST", {}, b"x", seconds=None))
        await until(lambda: len(scripted.heads) == 1)
        with pytest.raises(HttpError, match=r"1 requests wait for their responses; none came within 0\.05 s"):
            await client.request("POST", {}, b"y")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_too_many_event_streams_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_STREAMS", 1)
    stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    async with reached(Scripted([stream, HANG], [OK])) as client:
        async with client.events({}, 5):
            with pytest.raises(HttpError, match="1 event streams are open, which is the limit"):
                async with client.events({}, 5):
                    pass
        async with client.events({}, 5) as response:
            assert response.status == 200


async def test_a_response_before_the_end_of_a_long_request_ends_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        with suppress(ConnectionError):
            while await reader.read(65536):
                pass
        writer.close()
        ended.set()

    ended = asyncio.Event()
    async with asyncio.timeout(60), await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024) as server:
        port = server.sockets[0].getsockname()[1]
        client = HttpClient(RemoteEndpoint.of(f"http://127.0.0.1:{port}"), 1000)
        answer = await client.request("POST", {}, b"x" * 20_000_000)
        assert answer.status == 413
        assert not client._idle
        await client.aclose()
        await ended.wait()
