"""Clients that guess tokens. The promise: guessing is slow, and shuts out no caller whose token is right.

`docs/topics/threat-model.md`: wrong tokens from one address slow it down; a token that was accepted is not delayed.
"""

from __future__ import annotations

import asyncio
import secrets

import httpx2
import pytest

from duologue.transports.server.limits import Limits
from duologue.transports.server.tokens import TokenVerifier, TooManyFailedAttempts, single_token
from tests.transports.server.servers import (
    TOKEN,
    Echo,
    RunningServer,
    bearer,
    http_client_to,
    running_server,
    socket_to,
)
from tests.transports.waiting import until

QUICK = Limits(check_seconds=0.05)


class SlowCheck:
    """Checks tokens slowly, and counts how many it checks at once."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.running = 0
        self.most = 0
        self.is_open = asyncio.Event()

    async def authenticate(self, token: str) -> str | None:
        self.asked.append(token)
        self.running += 1
        self.most = max(self.most, self.running)
        await self.is_open.wait()
        self.running -= 1
        return "ann" if token == TOKEN else None


async def guess(server: RunningServer, client: httpx2.AsyncClient, token: str | None = None) -> int:
    answer = await client.get(f"{server.base}/metrics", headers=bearer(token or secrets.token_urlsafe()))
    return answer.status_code


@pytest.mark.fault("HTT-22", "HTT-04", "GWY-02")
async def test_the_right_token_is_accepted_after_wrong_ones_from_the_same_address() -> None:
    async with running_server(Echo(), QUICK) as server, httpx2.AsyncClient(trust_env=False) as client:
        assert [await guess(server, client) for _ in range(15)] == [401] * 15
        async with socket_to(server) as socket:
            await socket.initialize()
        async with http_client_to(server) as trusted:
            await trusted.initialize()


@pytest.mark.fault("HTT-22")
async def test_a_token_that_was_accepted_is_not_delayed_by_a_neighbour_that_guesses() -> None:
    # The next check of an unknown token is an hour away, and nothing may wait for it.
    async with running_server(Echo(), Limits(check_seconds=3600, checks_waiting=0)) as server:
        async with httpx2.AsyncClient(trust_env=False) as client:
            assert await guess(server, client, TOKEN) == 200
            assert [await guess(server, client) for _ in range(12)] == [401] * 10 + [429] * 2
            assert await guess(server, client, TOKEN) == 200
            async with socket_to(server) as socket:
                await socket.initialize()
            refused = await client.get(f"{server.base}/metrics", headers=bearer("wrong"))
    assert refused.headers["Retry-After"].isdigit()
    assert "wrong tokens" in refused.text


@pytest.mark.fault("HTT-23")
async def test_ten_thousand_guesses_at_once_are_checked_four_at_a_time_and_no_more_than_ten() -> None:
    check = SlowCheck()
    checks = TokenVerifier(check.authenticate, Limits(check_seconds=3600))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        guesses = [group.create_task(ask(checks, f"guess {number}")) for number in range(10_000)]
        await until(lambda: sum(task.done() for task in guesses) >= 10_000 - 34)
        assert (check.running, len(check.asked)) == (4, 4)
        check.is_open.set()
        await until(lambda: len(check.asked) >= 10)
        for _ in range(100):
            await asyncio.sleep(0)
        assert (check.most, len(check.asked)) == (4, 10)
        assert [task.result() for task in guesses if task.done()].count("busy") == 10_000 - 34
        for task in guesses:
            task.cancel()


@pytest.mark.fault("HTT-23")
async def test_checks_that_run_count_before_they_fail() -> None:
    check = SlowCheck()
    checks = TokenVerifier(check.authenticate, Limits(check_seconds=3600, checks_at_once=100, checks_waiting=100))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        guesses = [group.create_task(ask(checks, f"guess {number}")) for number in range(50)]
        await until(lambda: len(check.asked) >= 10)
        for _ in range(100):
            await asyncio.sleep(0)
        assert (check.running, len(check.asked)) == (10, 10)
        for task in guesses:
            task.cancel()


async def ask(checks: TokenVerifier, token: str, address: str = "192.0.2.1") -> str | None:
    try:
        return await checks.caller_of(token, address)
    except TooManyFailedAttempts:
        return "busy"


@pytest.mark.fault("HTT-23")
async def test_parallel_guesses_over_the_wire_do_not_reach_a_slow_check_of_tokens_all_at_once() -> None:
    check = SlowCheck()
    async with (
        running_server(Echo(), Limits(check_seconds=3600, checks_waiting=2), check.authenticate) as server,
        httpx2.AsyncClient(trust_env=False, limits=httpx2.Limits(max_connections=None), timeout=30) as client,
        asyncio.TaskGroup() as group,
    ):
        guesses = [group.create_task(guess(server, client)) for _ in range(100)]
        while sum(task.done() for task in guesses) < 94:
            await asyncio.wait([task for task in guesses if not task.done()], return_when=asyncio.FIRST_COMPLETED)
        assert (check.running, check.most) == (4, 4)
        check.is_open.set()
        statuses = sorted([await task for task in guesses])
    assert statuses == [401] * 6 + [429] * 94


@pytest.mark.fault("HTT-22")
async def test_only_the_address_that_guesses_has_to_wait_and_only_for_a_minute() -> None:
    now = 1000.0
    checks = TokenVerifier(single_token(TOKEN), Limits(check_seconds=3600, checks_waiting=0), clock=lambda: now)
    assert [await ask(checks, "wrong") for _ in range(11)] == [None] * 10 + ["busy"]
    assert await ask(checks, TOKEN) == "busy"
    assert await ask(checks, TOKEN, "192.0.2.2") == "owner"
    now += 61
    assert await ask(checks, "wrong") is None


@pytest.mark.fault("HTT-22", "GWY-04")
async def test_a_revoked_token_is_rejected_at_once_although_it_was_accepted_before() -> None:
    valid = {TOKEN}
    checks = TokenVerifier(
        lambda token: "ann" if token in valid else None, Limits(check_seconds=3600, checks_waiting=0)
    )
    assert await ask(checks, TOKEN) == "ann"
    valid.clear()
    assert await ask(checks, TOKEN) is None
    assert [await ask(checks, TOKEN) for _ in range(11)] == [None] * 10 + ["busy"]


@pytest.mark.fault("HTT-22")
async def test_an_accepted_token_is_cached_for_an_hour_and_not_in_plain_text() -> None:
    now = 1000.0
    checks = TokenVerifier(single_token(TOKEN), Limits(check_seconds=3600, checks_waiting=0), clock=lambda: now)
    assert await ask(checks, TOKEN) == "owner"
    assert TOKEN not in repr(vars(checks))
    now += 3601
    assert [await ask(checks, "wrong") for _ in range(10)] == [None] * 10
    assert await ask(checks, TOKEN) == "busy"


async def test_the_table_of_failed_addresses_is_bounded() -> None:
    checks = TokenVerifier(lambda token: token if token.startswith("right") else None, Limits())
    for number in range(11_000):
        await checks.caller_of("wrong", f"address {number}")
        await checks.caller_of(f"right {number}", "192.0.2.1")
    assert len(checks._addresses) == len(checks._accepted) == 10_000


async def test_a_guesser_that_disconnects_while_waiting_frees_its_slot() -> None:
    checks = TokenVerifier(single_token(TOKEN), Limits(check_seconds=0.05, checks_waiting=1))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for _ in range(10):
            await ask(checks, "wrong")
        for _ in range(20):
            waiting = group.create_task(ask(checks, "wrong"))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert await ask(checks, TOKEN) == "owner"


async def test_guesses_in_a_row_take_a_second_each_after_the_tenth() -> None:
    loop = asyncio.get_running_loop()
    checks = TokenVerifier(single_token(TOKEN), Limits(check_seconds=0.1))
    for _ in range(10):
        await ask(checks, "wrong")
    began = loop.time()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        guesses = [group.create_task(ask(checks, f"wrong {number}")) for number in range(10)]
    assert [task.result() for task in guesses] == [None] * 10
    assert loop.time() - began >= 0.9
