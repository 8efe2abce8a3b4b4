"""Access control, tested with raw requests: browsers and attackers do not use our client."""

from __future__ import annotations

import asyncio
import json
import logging

import httpx2
import pytest
from websockets.exceptions import InvalidStatus

from duologue.errors import StartError
from duologue.transports.server.auth import AccessControl, RequestRejected
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import ServerAddress, new_token
from tests.transports.server.servers import (
    TOKEN,
    Echo,
    Json,
    RunningServer,
    bearer,
    http_client_to,
    raw,
    running_server,
    socket_to,
)

BODY = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
FOREIGN_HOSTS = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example:{port}",
    "localhost:1",
    "127.0.0.1:{port}0",
    "127.0.0.2:{port}",
    "[::1",
    "localhost:{port}:{port}",
    "user@localhost",
    "",
    " ",
]
FOREIGN_ORIGINS = [
    "https://evil.example",
    "null",
    "http://localhost.evil.example",
    "http://localhost:1",
    "https://localhost:{port}",
    "http://127.0.0.1:{port}",
    "http://localhost:{port}.evil.example",
    "http://localhost:{port}/",
    "file://",
    "",
]


async def status(
    server: RunningServer, *headers: str, method: str = "POST", path: str = "/acp", body: str = BODY
) -> int:
    """Send a request with exactly these headers; return its status."""
    head = "".join(f"{header.replace('{port}', str(server.port))}\r\n" for header in headers)
    answer = await raw(
        server,
        f"{method} {path} HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        f"Connection: close\r\n\r\n{body}".encode(),
    )
    return int(answer.split()[1])


@pytest.mark.fault("HTT-01")
@pytest.mark.parametrize("host", FOREIGN_HOSTS)
async def test_a_foreign_name_is_refused(host: str) -> None:
    async with running_server(echo := Echo()) as server:
        assert await status(server, f"Host: {host}", f"Authorization: Bearer {TOKEN}") == 403
        assert await status(server, f"Host: {host}", method="GET", path="/health", body="") == 403
    assert echo.frames == []


@pytest.mark.fault("HTT-01")
async def test_no_name_and_two_names_are_refused() -> None:
    async with running_server(Echo()) as server:
        token = f"Authorization: Bearer {TOKEN}"

        assert await status(server, token) == 400
        for path in ("/acp", "/health", "/metrics"):
            for other in ("localhost", "evil.example"):
                for hosts in ((f"Host: {other}", "Host: localhost"), ("Host: localhost", f"Host: {other}")):
                    assert await status(server, *hosts, token, path=path) in (400, 403)
    # Some web servers reject two of them themselves; others pass them on.
    scope: Json = {"type": "http", "headers": [(b"host", b"localhost"), (b"host", b"localhost")], "scheme": "http"}
    with pytest.raises(RequestRejected) as refusal:
        AccessControl(None, Limits()).check_host_and_origin(scope)
    assert refusal.value.status == 403


@pytest.mark.fault("HTT-01")
async def test_a_foreign_name_is_refused_before_any_of_the_body_is_there() -> None:
    async with running_server(Echo()) as server:
        answer = await raw(server, b"POST /acp HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000000\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:{port}", "127.0.0.1:{port}", "[::1]:{port}", "agents.example"]
)
async def test_our_own_names_are_welcome(host: str) -> None:
    async with running_server(Echo(), hosts=["agents.example"]) as server:
        assert await status(server, f"Host: {host}", f"Authorization: Bearer {TOKEN}") == 200


@pytest.mark.fault("HTT-02", "HTT-03")
@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
async def test_a_foreign_page_is_refused_from_loopback_too(origin: str) -> None:
    async with running_server(Echo()) as server:
        headers = ("Host: localhost:{port}", f"Origin: {origin}", f"Authorization: Bearer {TOKEN}")

        assert await status(server, *headers) == 403
        assert await status(server, "Origin: http://localhost:{port}", *headers) == 403


@pytest.mark.fault("HTT-02")
async def test_our_own_page_and_those_that_are_allowed_are_welcome() -> None:
    async with running_server(Echo(), origins=["https://app.example"]) as server:
        for origin in ("http://localhost:{port}", "HTTP://LOCALHOST:{port}", "https://app.example"):
            headers = ("Host: localhost:{port}", f"Origin: {origin}", f"Authorization: Bearer {TOKEN}")

            assert await status(server, *headers) == 200
        two = ("Host: localhost", "Origin: https://app.example", "Origin: https://app.example")
        assert await status(server, *two, f"Authorization: Bearer {TOKEN}") == 403


@pytest.mark.fault("HTT-02")
async def test_without_an_origin_a_token_is_needed() -> None:
    async with running_server(Echo()) as server:
        assert await status(server, "Host: localhost") == 401


async def test_behind_a_proxy_with_tls_our_own_page_is_secure() -> None:
    async with running_server(Echo(), hosts=["agents.example"], is_behind_tls=True) as server:
        token = f"Authorization: Bearer {TOKEN}"

        assert await status(server, "Host: agents.example", "Origin: https://agents.example", token) == 200
        assert await status(server, "Host: agents.example", "Origin: http://agents.example", token) == 403


@pytest.mark.fault("HTT-04")
@pytest.mark.parametrize(
    "header",
    [
        "Authorization: Bearer wrong",
        "Authorization: Bearer",
        "Authorization: Bearer ",
        f"Authorization: Bearer  {TOKEN}",
        f"Authorization: Bearer {TOKEN} {TOKEN}",
        f"Authorization: Bearer {TOKEN}x",
        f"Authorization: Bearer {TOKEN[:-1]}",
        f"Authorization: {TOKEN}",
        f"Authorization: Basic {TOKEN}",
        "Authorization: Bearer " + "x" * 50_000,
        f"X-Token: {TOKEN}",
        f"Cookie: token={TOKEN}",
        f"Authorization: Bearer {TOKEN}\r\nAuthorization: Bearer {TOKEN}",
    ],
)
async def test_only_the_right_token_in_the_right_place_opens_the_door(header: str) -> None:
    async with running_server(Echo()) as server:
        assert await status(server, "Host: localhost", header) == 401


@pytest.mark.fault("HTT-04")
async def test_a_token_in_the_address_is_none_even_if_it_is_right() -> None:
    async with running_server(Echo()) as server:
        for name in ("token", "access_token", "Authorization"):
            assert await status(server, "Host: localhost", path=f"/acp?{name}={TOKEN}") == 401


@pytest.mark.fault("HTT-04")
async def test_a_header_of_a_mebibyte_is_not_read() -> None:
    async with running_server(Echo()) as server:
        answer = await raw(
            server, b"POST /acp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + b"x" * 1024 * 1024
        )

    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.fault("HTT-24")
@pytest.mark.parametrize("size", [60_000, 70_000, 100_000, 250_000])
async def test_headers_over_the_limit_are_refused_even_if_they_come_in_one_piece(size: int) -> None:
    long = "X-Padding: " + "x" * size
    many = "\r\n".join(["X-Padding: " + "x" * 87] * (size // 100))
    async with running_server(Echo()) as server:
        for path, padding in (("/metrics", long), ("/metrics", many), (f"/metrics?{'x' * size}", "X-Padding: none")):
            head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{padding}\r\n"
            answer = await raw(server, f"{head}Connection: close\r\n\r\n".encode())

            if size < 65_536:
                assert answer.startswith(b"HTTP/1.1 200 ")
            else:  # what comes in pieces is refused before the last of them, and reset if that is on its way
                assert answer == b"" or answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


@pytest.mark.fault("GWY-02")
def test_ids_cannot_be_guessed(chaos_factor: int) -> None:
    from duologue.transports.server.registry import new_id

    count = 10_000 * chaos_factor
    ids = {new_id() for _ in range(count)}

    assert len(ids) == count
    assert all(len(id) == 43 for id in ids)


def test_no_token_that_is_made_looks_like_an_option() -> None:
    assert not [token for token in (new_token() for _ in range(2000)) if token.startswith("-")]


@pytest.mark.fault("GWY-16")
async def test_the_word_of_a_proxy_counts_only_if_it_is_trusted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "duologue.access")
    for trusted in ((), ("127.0.0.1",)):
        async with running_server(Echo(), Limits(checks_waiting=0), trusted_proxies=trusted) as server:
            for number in range(12):
                headers = ("Host: localhost", f"X-Forwarded-For: 6.6.6.6, 10.0.0.{number}", "Authorization: Bearer x")
                await status(server, *headers)
    logged = [json.loads(record.message) for record in caplog.records if record.name == "duologue.access"]

    assert [line["status"] for line in logged] == [401] * 10 + [429] * 2 + [401] * 12
    assert [line["address"] for line in logged] == ["127.0.0.1"] * 12 + [f"10.0.0.{n}" for n in range(12)]


@pytest.mark.fault("HTT-18")
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_forms_and_preflights_of_foreign_pages_change_nothing(kind: str) -> None:
    echo = Echo()
    async with running_server(echo, is_open=True) as server, httpx2.AsyncClient(trust_env=False) as client:
        page = {"Origin": "https://evil.example"}
        preflight = {**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        answers = [
            await client.options(server.http, headers=preflight),
            await client.post(server.http, content=BODY, headers={**page, "Content-Type": kind}),
            await client.post(server.http, content=BODY, headers={"Content-Type": kind}),
        ]

    assert [answer.status_code for answer in answers] == [403, 403, 415]
    assert not [name for answer in answers for name in answer.headers if name.startswith("access-control")]
    assert echo.frames == []


@pytest.mark.fault("WSK-02")
async def test_sockets_are_refused_before_the_upgrade() -> None:
    async with running_server(Echo()) as server:
        refused: list[tuple[Json, int]] = [
            ({"origin": "https://evil.example"}, 403),
            ({"origin": "null"}, 403),
            ({"additional_headers": {}}, 401),
            ({"uri": f"ws://evil.example:{server.port}/acp", "host": "127.0.0.1", "port": server.port}, 403),
            ({"additional_headers": bearer("wrong")}, 401),
        ]
        for options, expected in refused:
            with pytest.raises(InvalidStatus) as refusal:
                async with socket_to(server, **options):
                    pass
            assert refusal.value.response.status_code == expected


@pytest.mark.fault("WSK-03")
@pytest.mark.parametrize(
    "names",
    [
        ["acp", "duologue.token.wrong"],
        ["acp", TOKEN],
        ["acp"],
        ["acp", f"duologue.token.{TOKEN}", f"duologue.token.{TOKEN}"],
    ],
)
async def test_a_subprotocol_is_a_token_only_if_it_says_so(names: list[str]) -> None:
    async with running_server(Echo()) as server:
        with pytest.raises(InvalidStatus) as refusal:
            async with socket_to(server, additional_headers={}, subprotocols=names):
                pass

    assert refusal.value.response.status_code == 401


@pytest.mark.fault("WSK-14")
@pytest.mark.parametrize(
    ("names", "selected"),
    [
        (["acp.v1", f"bearer.{TOKEN}"], "acp.v1"),
        ([f"bearer.{TOKEN}", "acp.v1"], "acp.v1"),
        (["acp.v1", "acp", f"openab.bearer.{TOKEN}"], "acp.v1"),
        (["other", "acp.v2", f"hydra-acp-token.{TOKEN}"], "acp.v2"),
        ([f"bearer.{TOKEN}"], f"bearer.{TOKEN}"),
    ],
)
async def test_the_spellings_of_other_clients_are_understood(names: list[str], selected: str) -> None:
    async with running_server(Echo()) as server:
        async with socket_to(server, additional_headers={}, subprotocols=names, origin=server.base) as socket:
            await socket.initialize()
            assert socket.connection.subprotocol == selected
        with pytest.raises(InvalidStatus) as refusal:
            async with socket_to(server, additional_headers={}, subprotocols=names, origin="https://evil.example"):
                pass
    assert refusal.value.response.status_code == 403


@pytest.mark.fault("GWY-18")
async def test_metrics_need_a_token_and_say_nothing_of_what_was_said() -> None:
    async with (
        running_server(Echo()) as server,
        socket_to(server) as socket,
        http_client_to(server) as client,
        http_client_to(server, None) as anonymous,
    ):
        await socket.initialize()
        await socket.ask(1, "the words of a user", {"sessionId": "session-of-a-user"})
        await client.initialize()
        refused = await anonymous.client.get(f"{server.base}/metrics")
        health = await anonymous.client.get(f"{server.base}/health")
        page = (await client.client.get(f"{server.base}/metrics")).text

    assert (refused.status_code, health.status_code, health.text) == (401, 200, "ok\n")
    assert "duologue_connections 2" in page
    assert 'duologue_connections_opened_total{transport="websocket"} 1' in page
    for secret in (TOKEN, socket.id, client.id, "user", "owner"):
        assert secret not in page


@pytest.mark.fault("GWY-17")
@pytest.mark.parametrize(
    "path", ["/acp/gemini", "/acp?agent=sh", "/acp/../bin/sh", "/sh", "//acp", "/acp%2fsh", "/ACP"]
)
async def test_nothing_in_a_request_chooses_what_is_run(path: str) -> None:
    callers: list[str] = []

    def servable_for(caller: str) -> Echo:
        callers.append(caller)
        return Echo()

    async with running_server(servable_for) as server:
        found = await status(server, "Host: localhost", f"Authorization: Bearer {TOKEN}", path=path)

    assert found == (200 if path.startswith("/acp?") else 404)
    assert set(callers) <= {"owner"}


async def test_authentication_may_take_its_time() -> None:
    async def authenticate(token: str) -> str | None:
        await asyncio.sleep(0)
        return "ann" if token == "hers" else None

    async with running_server(Echo(), authenticate=authenticate) as server, http_client_to(server, "hers") as ann:
        await ann.initialize()


@pytest.mark.fault("HTT-05")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "agents.example", "localhost.example"])
def test_a_public_address_needs_a_token_and_tls(host: str) -> None:
    for unsafe in (
        ServerAddress(host=host),
        ServerAddress(host=host, has_token=False, certificate="x"),
        ServerAddress(host=host, has_token=False),
    ):
        with pytest.raises(StartError, match="refusing to listen"):
            unsafe.check()
    ServerAddress(host=host, certificate="x").check()
    ServerAddress(host=host, is_behind_tls=True).check()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.9.1"])
def test_loopback_is_private(host: str) -> None:
    ServerAddress(host=host, has_token=False).check()


@pytest.mark.parametrize(
    ("address", "url", "names"),
    [
        (ServerAddress(), "ws://127.0.0.1:80/acp#token=t", ("127.0.0.1",)),
        (ServerAddress(host="::1"), "ws://[::1]:80/acp#token=t", ("[::1]",)),
        (ServerAddress(host="0.0.0.0", certificate="c"), "wss://0.0.0.0:80/acp#token=t", ()),
        (ServerAddress(host="agents.example"), "ws://agents.example:80/acp#token=t", ("agents.example",)),
    ],
)
def test_a_place_knows_its_address(address: ServerAddress, url: str, names: tuple[str, ...]) -> None:
    assert (address.url(80, "ws", "t"), address.hostnames) == (url, names)


def test_a_request_of_no_known_origin_has_no_address() -> None:
    scope: Json = {"type": "http", "headers": [], "client": None}

    assert AccessControl(None, Limits()).address(scope) == "unknown"
