"""A process for each connection: frames as they are, and honest answers when it ends."""

from __future__ import annotations

import asyncio
import sys

import pytest

from duologue.errors import StartError
from duologue.relay.backoff import RestartBackoff
from duologue.relay.process_relay import ProcessRelay
from duologue.relay.pump import strip_newlines
from duologue.transports.process.transport import ProcessTransport
from tests.relay.agents import ECHO, process
from tests.relay.clients import clients


async def test_frames_pass_byte_for_byte() -> None:
    text = '{"jsonrpc":"2.0" ,"id":"é","method":"x","params":{"n":12345678901234567890123,"n":1e400,"_meta":null}}'
    async with clients(ProcessRelay(process(ECHO)), 1) as [client]:
        client.send(text.encode())
        answer = await client.next()

    assert answer is not None
    assert answer["result"]["line"] == text


def test_a_message_of_many_lines_becomes_one() -> None:
    assert strip_newlines(b'{\r\n  "id": 1\n}') == b'{    "id": 1 }'
    assert strip_newlines(frame := b'{"id":1}') is frame


async def test_each_client_has_a_process_of_its_own() -> None:
    pid = """
    import os
    for line in read():
        answer(json.loads(line), os.getpid())
    """
    async with clients(ProcessRelay(process(pid)), 3) as all_of_them:
        pids = [(await client.answer(1, "pid"))["result"] for client in all_of_them]

    assert len(set(pids)) == 3


async def test_open_requests_are_answered_with_an_error_when_the_agent_ends() -> None:
    quitter = """
    for line in read():
        if b"quit" in line:
            sys.stderr.write("a secret")
            sys.exit(7)
    """
    async with clients(ProcessRelay(process(quitter)), 1) as [client]:
        client.ask(1, "x")
        client.ask("two", "x")
        client.ask(3, "quit")
        answers = [await client.next() for _ in range(3)]
        end = await client.next()

    assert [answer and answer["id"] for answer in answers] == [1, "two", 3]
    assert {answer["error"]["code"] for answer in answers if answer} == {-32603}
    assert "code 7" in str(answers[0])
    assert "secret" not in str(answers)
    assert end is None


async def test_an_agent_that_cannot_be_started_is_an_error_for_the_first_request() -> None:
    async with clients(ProcessRelay(lambda: ProcessTransport(["/no/such/agent"])), 1) as [client]:
        answer = await client.answer(1, "initialize")

        assert "/no/such/agent" in answer["error"]["message"]
        assert await client.next() is None


@pytest.mark.fault("GWY-12")
async def test_an_agent_that_crashes_at_start_is_restarted_ever_more_slowly() -> None:
    now = 1000.0
    backoff = RestartBackoff(clock=lambda: now)
    pipe = ProcessRelay(process("sys.exit(1)"), backoff)
    messages: list[str] = []
    for _ in range(4):
        async with clients(pipe, 1) as [client]:
            messages.append((await client.answer(1, "initialize"))["error"]["message"])
    async with clients(ProcessRelay(process(ECHO)), 1) as [other]:
        assert "result" in await other.answer(1, "initialize")

    assert ["code 1" in message for message in messages] == [True, True, True, False]
    assert "failed 3 times" in messages[3]


@pytest.mark.fault("GWY-12")
def test_pauses_grow_to_a_minute_and_end_with_a_life_that_is_long_enough() -> None:
    now = 0.0
    backoff = RestartBackoff(clock=lambda: now)
    pauses: list[float] = []
    for _ in range(12):
        backoff.ended(0.1, has_failed=True)
        began = now
        while True:
            try:
                backoff.check()
                break
            except StartError:
                now += 0.5
        pauses.append(now - began)
    backoff.ended(60.0, has_failed=True)
    backoff.ended(0.1, has_failed=True)
    backoff.check()

    assert pauses == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


async def test_a_client_that_leaves_takes_its_process_along() -> None:
    opened: list[ProcessTransport] = []

    def open_process() -> ProcessTransport:
        opened.append(ProcessTransport([sys.executable, "-c", "import sys; sys.stdin.read()"]))
        return opened[0]

    async with clients(ProcessRelay(open_process), 1) as [client]:
        client.ask(1, "x")
        async with asyncio.timeout(60):
            while not opened or opened[0].pid is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    assert opened[0].returncode == 0
