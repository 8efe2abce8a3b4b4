from __future__ import annotations

import ipaddress
from collections.abc import Collection

import httpx2
import pytest

from duologue.errors import StartError
from duologue.mcp import url_policy as addresses
from duologue.mcp.http_client import PinnedTransport
from duologue.mcp.url_policy import Address, check_url, resolve


@pytest.mark.fault("MCP-07")
@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://example.org/", "unix:/run/x", "//host/mcp", "http://", "http://[::1", "mcp"]
)
@pytest.mark.parametrize("allow_hosts", [None, ["host"]])
async def test_an_invalid_or_forbidden_url_is_rejected(url: str, allow_hosts: Collection[str] | None) -> None:
    with pytest.raises(StartError):
        await check_url(url, allow_hosts)


@pytest.mark.fault("MCP-07")
@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "2852039166", "0xa9.0xfe.0xa9.0xfe"]
)
async def test_a_link_local_address_is_refused_however_it_is_spelt(host: str) -> None:
    with pytest.raises(StartError, match="link-local"):
        await check_url(f"http://{host}/latest/meta-data", None)


@pytest.mark.fault("MCP-07")
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "10.0.0.1", "192.168.1.1", "172.16.0.1", "[::1]", "[fd00::1]", "0.0.0.0"]
)
async def test_with_a_list_of_hosts_a_private_address_must_be_on_it(host: str) -> None:
    await check_url(f"http://{host}:8000/mcp", None)
    await check_url(f"http://{host}:8000/mcp", [host.strip("[]")])
    with pytest.raises(StartError, match="private"):
        await check_url(f"http://{host}:8000/mcp", ["elsewhere"])


async def test_a_public_address_needs_no_permission() -> None:
    await check_url("https://93.184.215.14/mcp", [])


async def test_a_link_local_address_can_be_allowed_by_name() -> None:
    await check_url("http://169.254.1.1/mcp", ["169.254.1.1"])


async def test_an_unknown_name_has_no_address() -> None:
    assert await resolve("no-such-host.invalid", 80) == []
    assert await resolve("a" * 300, 80) == []


class Names:
    """A name server whose answers change, as an attacker's do."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)

    async def __call__(self, host: str, port: int) -> list[Address]:
        return [ipaddress.ip_address(self._answers.pop(0))] if self._answers else []


def _answer(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, json={"url": str(request.url), "host": request.headers["host"]})


@pytest.mark.fault("MCP-07")
async def test_a_name_that_turns_private_after_it_was_checked_is_refused_at_the_next_request() -> None:
    names = Names("93.184.215.14", "10.0.0.1")
    transport = PinnedTransport([], inner=httpx2.MockTransport(_answer), resolve=names)

    async with httpx2.AsyncClient(transport=transport) as client:
        first = await client.get("http://turning.example/mcp")
        with pytest.raises(StartError, match="private"):
            await client.get("http://turning.example/mcp")

    assert first.json() == {"url": "http://93.184.215.14/mcp", "host": "turning.example"}


async def test_a_host_on_the_list_is_reached_by_its_name() -> None:
    transport = PinnedTransport(["inside"], inner=httpx2.MockTransport(_answer), resolve=Names())

    async with httpx2.AsyncClient(transport=transport) as client:
        answer = await client.get("http://inside/mcp")

    assert answer.json()["url"] == "http://inside/mcp"


async def test_a_host_without_an_address_cannot_be_reached() -> None:
    async with httpx2.AsyncClient(transport=PinnedTransport([], resolve=Names())) as client:
        with pytest.raises(httpx2.ConnectError, match="no address for nowhere"):
            await client.get("http://nowhere/mcp")


async def test_every_address_of_a_host_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def both(host: str, port: int) -> list[Address]:
        return [ipaddress.ip_address("93.184.215.14"), ipaddress.ip_address("127.0.0.1")]

    monkeypatch.setattr(addresses, "resolve", both)
    with pytest.raises(StartError, match="private"):
        await check_url("http://two-faced.example/mcp", [])
    transport = PinnedTransport([], inner=httpx2.MockTransport(_answer), resolve=both)
    async with httpx2.AsyncClient(transport=transport) as client:
        with pytest.raises(StartError, match="private"):
            await client.get("http://two-faced.example/mcp")
