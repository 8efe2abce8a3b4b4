"""Our agent and client on connections with faults: every wait ends, every error has a type, nothing hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duologue import Agent, Permissions, Turn, Workspace, connect
from duologue.errors import ConnectionLost, DuologueError, OutputLimitExceeded
from duologue.testing import FaultPlan, FaultyTransport, VirtualClock, faulty_streams
from duologue.testing.faults.injector import FaultInjector
from duologue.transports.base import Transport
from duologue.transports.memory import memory_pair
from duologue.transports.process.transport import ProcessTransport
from tests.builtin.harness import PROGRAM

SECONDS = 600
"""Virtual seconds for each act: a message that was dropped is waited for that long."""

PLANS = 100
"""Plans of each kind of connection; `make chaos` runs more."""


def make_agent() -> Agent[Any]:
    agent = Agent("busy")

    @agent.on_prompt
    async def answer(turn: Turn) -> None:
        await turn.plan("Read", "Answer")
        async with turn.tool("Read a.txt", kind="read") as tool:
            if await tool.request_permission():
                await tool.show(await turn.files.read(turn.cwd / "a.txt"))
        for number in range(20):
            await turn.say(f"word {number} ")
            if number % 5 == 0:
                await asyncio.sleep(1)

    return agent


async def converse(transport: Transport, cwd: Path) -> list[str]:
    """Do what a client does, each act with a limit; return how each one ended."""
    ends: list[str] = []

    async def act(name: str, work: Callable[[], Any]) -> Any:
        try:
            async with asyncio.timeout(SECONDS):
                result = await work()
        except (DuologueError, TimeoutError) as error:
            ends.append(f"{name}: {type(error).__name__}")
            raise
        ends.append(name)
        return result

    try:
        async with connect(transport, permissions=Permissions(read="allow"), workspace=Workspace(cwd)) as agent:
            session = await act("new", lambda: agent.new_session(cwd))
            turn = await act("prompt", lambda: session.prompt("go"))
            ends.append(turn.text)
            async with session.prompt("again") as second:
                await act("cancel", second.cancel)
            await act("close", session.aclose)
    except (DuologueError, TimeoutError) as error:
        ends.append(type(error).__name__)
    return ends


async def run_plan(seed: int, make: Callable[[int], tuple[Transport, Transport]], cwd: Path) -> list[str]:
    near, far = make(seed)
    with VirtualClock():
        async with asyncio.timeout(100 * SECONDS), asyncio.TaskGroup() as group:
            serving = group.create_task(make_agent().serve(far))
            ends = await converse(near, cwd)
            await serving  # the end of the connection is the end of the agent
    return ends


def on_frames(seed: int) -> tuple[Transport, Transport]:
    near, far = memory_pair()
    return FaultyTransport(near, seed=seed), far


def on_frames_of_the_agent(seed: int) -> tuple[Transport, Transport]:
    near, far = memory_pair()
    return near, FaultyTransport(far, seed=seed)


def on_bytes(seed: int) -> tuple[Transport, Transport]:
    return faulty_streams(seed=seed)


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("content")
    return tmp_path


@pytest.mark.parametrize("make", [on_frames, on_frames_of_the_agent, on_bytes])
@pytest.mark.parametrize("part", range(10))
async def test_every_wait_ends_under_hundreds_of_fault_plans(
    make: Callable[[int], tuple[Transport, Transport]],
    part: int,
    cwd: Path,
    chaos_factor: int,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("count", PLANS * chaos_factor // 10)
    for seed in range(part, PLANS * chaos_factor, 10):
        try:
            await run_plan(seed, make, cwd)
        except BaseException as error:
            error.add_note(f"seed {seed}: {FaultPlan.random(seed)}")
            raise


@pytest.mark.parametrize("make", [on_frames, on_bytes])
@pytest.mark.parametrize("seed", [3, 7, 11])
async def test_the_same_seed_gives_the_same_run(
    make: Callable[[int], tuple[Transport, Transport]], seed: int, cwd: Path
) -> None:
    assert await run_plan(seed, make, cwd) == await run_plan(seed, make, cwd)


GOOD = ["new", "prompt", "".join(f"word {number} " for number in range(20)), "cancel", "close"]


@pytest.mark.parametrize(
    "plan",
    [
        FaultPlan(),
        FaultPlan(split=1.0),
        FaultPlan(merge=1.0),
        FaultPlan(split=0.5, merge=0.5, delay=0.3, max_delay=20.0),
        FaultPlan(bytes_per_second=2000.0),
        FaultPlan(garbage=0.5, direction="receive"),
        FaultPlan(giant=0.2),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_bytes", [False, True])
async def test_faults_that_lose_nothing_change_nothing(plan: FaultPlan, is_bytes: bool, cwd: Path) -> None:
    def make(seed: int) -> tuple[Transport, Transport]:
        if is_bytes:
            return faulty_streams(plan, seed=seed)
        near, far = memory_pair()
        return FaultyTransport(near, plan, seed=seed), far

    assert await run_plan(1, make, cwd) == GOOD


def frames(count: int) -> list[bytes]:
    return [msgspec.json.encode({"jsonrpc": "2.0", "method": f"m{number}", "params": {}}) for number in range(count)]


async def pass_through(plan: FaultPlan, sent: list[bytes], seed: int = 1) -> list[bytes]:
    """Send frames through a connection that is faulty there; return what arrives."""
    near, far = memory_pair()
    received: list[bytes] = []
    with VirtualClock():
        async with FaultyTransport(near, plan, seed=seed) as faulty, far:
            try:
                for frame in sent:
                    faulty.send(frame)
                await asyncio.sleep(10_000)
            except ConnectionLost:
                pass
            await faulty.aclose()
            while found := await far.receive():
                received += found
    return received


async def test_each_fault_does_what_its_name_says() -> None:
    sent = frames(100)

    assert await pass_through(FaultPlan(delay=1.0), sent) == sent
    assert await pass_through(FaultPlan(duplicate=1.0), sent) == [each for frame in sent for each in (frame, frame)]
    assert await pass_through(FaultPlan(drop=1.0), sent) == []
    assert 0 < len(await pass_through(FaultPlan(drop=0.5), sent)) < 100
    garbled = await pass_through(FaultPlan(garbage=1.0), sent)
    assert garbled[1::2] == sent
    giant = await pass_through(FaultPlan(giant=1.0, giant_bytes=5000), sent[:3])
    assert [len(frame) > 5000 for frame in giant] == [True, False] * 3
    assert await pass_through(FaultPlan(end_after=7), sent) == sent[:7]
    torn = await pass_through(FaultPlan(end_after=7, is_torn=True), sent)
    assert torn[:7] == sent[:7]
    assert 0 < len(torn[7]) < len(sent[7])
    assert sent[7].startswith(torn[7])
    assert await pass_through(FaultPlan(direction="receive", drop=1.0), sent) == sent


async def test_the_error_of_a_planned_end_names_the_seed() -> None:
    near, far = memory_pair()
    async with FaultyTransport(near, FaultPlan(direction="receive", end_after=1), seed=4711) as faulty, far:
        far.send(b"{}")
        far.send(b"{}")
        assert await faulty.receive() == [b"{}"]
        with pytest.raises(ConnectionLost, match=r"ended after 1 messages, as planned \(fault seed 4711\)"):
            await faulty.receive()
        with pytest.raises(ConnectionLost, match="4711"):
            faulty.send(b"{}")
        assert "fault seed 4711, FaultPlan(direction='receive', end_after=1)" in str(faulty)
        assert "message 2 not delivered: the connection ends" in str(faulty)


async def test_a_slow_reader_congests_the_sender_and_then_ends_the_connection(virtual_time: VirtualClock) -> None:
    near, far = memory_pair()
    plan = FaultPlan(direction="send", bytes_per_second=1000.0)
    async with FaultyTransport(near, plan, seed=1, max_queued_bytes=10_000) as faulty, far:
        for _ in range(12):
            faulty.send(b"x" * 1000)
        assert faulty.is_congested
        await faulty.drain()
        assert virtual_time.elapsed == pytest.approx(2)
        with pytest.raises(OutputLimitExceeded, match="fault seed 1"):
            for _ in range(100):
                faulty.send(b"x" * 1000)


async def test_a_process_is_reached_through_faults_as_well(tmp_path: Path) -> None:
    plan = FaultPlan(delay=0.3, max_delay=0.01, split=0.5, garbage=0.3, direction="receive")
    transport = FaultyTransport(ProcessTransport([*PROGRAM]), plan, seed=2)
    async with asyncio.timeout(60), connect(transport) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.prompt("/say hello")).stop_reason == "end_turn"


async def test_bytes_are_split_anywhere_and_lines_are_read_whole(virtual_time: VirtualClock) -> None:
    sent = [msgspec.json.encode({"text": "é🙂" * number}) for number in range(1, 200)]
    one, other = faulty_streams(FaultPlan(split=1.0, delay=0.1), seed=5)
    received: list[bytes] = []
    async with one, other:
        for frame in sent:
            one.send(frame)
        async with asyncio.timeout(10_000):
            while len(received) < len(sent):
                received += await other.receive()

    assert received == sent


async def test_a_stream_that_ends_in_the_middle_of_a_line_delivers_the_beginning(virtual_time: VirtualClock) -> None:
    one, other = faulty_streams(FaultPlan(direction="send", end_after=2, is_torn=True), seed=5)
    async with one, other:
        for frame in frames(4):
            one.send(frame)
        received: list[bytes] = []
        while found := await other.receive():
            received += found
        assert received[:2] == frames(2)
        assert frames(3)[2].startswith(received[2])
        with pytest.raises(ConnectionLost, match="fault seed 5"):
            one.send(b"{}")


async def test_a_stream_whose_reader_waits_congests_the_writer(virtual_time: VirtualClock) -> None:
    one, other = faulty_streams(FaultPlan(), seed=1)
    async with one, other:
        for _ in range(100):
            one.send(b"x" * 100_000)
        await asyncio.sleep(1)
        assert one.is_congested
        count = 0
        while count < 100:
            count += len(await other.receive())
        await one.drain()
        assert not one.is_congested


def test_a_plan_is_reproducible_and_says_what_it_is() -> None:
    assert FaultPlan.random(5) == FaultPlan.random(5)
    assert len({str(FaultPlan.random(seed)) for seed in range(100)}) > 90
    assert str(FaultPlan(drop=0.5, direction="send")) == "FaultPlan(direction='send', drop=0.5)"
    injector = FaultInjector(FaultPlan(split=1.0), 3, "send")
    assert b"".join(injector.pieces(b"abcdef")) == b"abcdef"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"drop": 2.0}, "`drop` is a chance from 0 to 1, not 2.0"),
        ({"bytes_per_second": 0.0}, "`bytes_per_second` must be more than 0"),
        ({"is_torn": True}, "`is_torn` needs `end_after`"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        FaultPlan(**fields)
