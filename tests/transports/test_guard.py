"""No child outlives this process: not if the agent is killed, not if we are, not if nothing is closed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from asyncio.subprocess import PIPE
from pathlib import Path
from subprocess import Popen
from typing import IO

import pytest
from msgspec import structs

from duologue.errors import AgentExited
from duologue.transports.process import process_tree as tree
from duologue.transports.process.environment import owned_by
from duologue.transports.process.guard import Guard, _running
from duologue.transports.process.transport import ProcessTransport
from tests.transports.programs import python, shell
from tests.transports.waiting import until

STUBBORN_FAMILY = "trap '' TERM; setsid sleep 1000 & sleep 1000 & while :; do echo '{}'; sleep 0.01; done"
"""An agent that ignores both the end of its input and SIGTERM, with a child in its group and one outside."""

CLIENT = """
import asyncio, sys
from duologue.transports.process.transport import ProcessTransport

async def main():
    print("started", flush=True)
    async with ProcessTransport(["sh", "-c", sys.argv[1]]) as transport:
        print("entered", flush=True)
        while True:
            for frame in await transport.receive():
                transport.send(frame)

asyncio.run(main())
"""


@pytest.mark.fault("PRC-01")
@pytest.mark.timeout(3600)  # `make chaos` runs it a hundred times; its own waits are bounded.
async def test_an_agent_killed_at_any_moment_is_reported_within_a_second_and_leaves_nothing(
    chaos_factor: int, nothing_left: str
) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(20 * chaos_factor):
        chatter = "setsid sleep 1000 & sleep 1000 & while :; do echo '{}'; done"
        async with asyncio.timeout(60), ProcessTransport(shell(chatter)) as transport:
            killed_at = 0.0
            turns = chance.randrange(40)
            with pytest.raises(AgentExited) as ended:
                while True:
                    if turns == 0:
                        assert transport.pid is not None
                        os.kill(transport.pid, signal.SIGKILL)
                        killed_at = time.monotonic()
                    turns -= 1
                    await transport.receive()
            assert time.monotonic() - killed_at < 1
            assert ended.value.signal == "SIGKILL"
        assert tree.find_by_marker(nothing_left) == []


@pytest.mark.fault("PRC-02")
@pytest.mark.timeout(3600)
async def test_a_client_killed_at_any_moment_takes_its_agents_with_it(chaos_factor: int, nothing_left: str) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)

    async def kill_one(delay: float) -> None:
        process = await asyncio.create_subprocess_exec(*python(CLIENT, STUBBORN_FAMILY), stdout=PIPE)
        assert process.stdout is not None
        await process.stdout.readline()
        # The random moment is the fault itself: from before the guard exists to the middle of the traffic.
        await asyncio.sleep(delay)
        process.kill()
        await process.wait()

    for _ in range(4 * chaos_factor):
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(kill_one(chance.uniform(0, 0.05)))
        await until(lambda: tree.find_by_marker(nothing_left) == [], seconds=5)


@pytest.mark.fault("PRC-02")
async def test_a_client_killed_in_mid_traffic_takes_all_of_an_agents_family_with_it(nothing_left: str) -> None:
    process = await asyncio.create_subprocess_exec(*python(CLIENT, STUBBORN_FAMILY), stdout=PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert await process.stdout.readline() == b"started\n"
        assert await process.stdout.readline() == b"entered\n"
        # The client itself, the agent, and its two children; the guard carries no mark.
        await until(lambda: len(tree.find_by_marker(nothing_left)) >= 4)
        process.kill()
        await process.wait()
    await until(lambda: tree.find_by_marker(nothing_left) == [], seconds=5)


NEVER_CLOSED = """
import asyncio, sys
from duologue.transports.process.transport import ProcessTransport

transport = ProcessTransport(["sh", "-c", sys.argv[1]])

async def main():
    await transport.__aenter__()
    await transport.receive()

asyncio.run(main())
"""


@pytest.mark.fault("LIF-17")
async def test_a_child_that_was_never_closed_ends_with_the_program_and_is_named(nothing_left: str) -> None:
    process = await asyncio.create_subprocess_exec(*python(NEVER_CLOSED, STUBBORN_FAMILY), stderr=PIPE)
    async with asyncio.timeout(60):
        _, err = await process.communicate()
    assert process.returncode == 0
    assert err.startswith(b"duologue: never closed, ended with the program: sh (pid ")
    assert b"Traceback" not in err
    assert tree.find_by_marker(nothing_left) == []


FORKED = """
import asyncio, atexit, os, signal, sys
from duologue.transports.process.transport import ProcessTransport

async def main():
    async with ProcessTransport(["sh", "-c", sys.argv[1]]) as transport:
        await transport.receive()
        if os.fork() == 0:
            atexit._run_exitfuncs()
            await transport._child.stop(lambda: None)
            print(os.getpid(), flush=True)
            signal.pause()
        transport.send(b"{}")
        await transport.receive()
        await transport.receive()
        print("still there", flush=True)
        signal.pause()

asyncio.run(main())
"""


async def test_a_forked_copy_of_us_neither_ends_our_children_nor_keeps_the_guard_waiting(
    tmp_path: Path, nothing_left: str
) -> None:
    output = tmp_path / "output"
    with output.open("wb") as file:
        process = started(python(FORKED, "trap '' TERM; while :; do echo '{}'; sleep 0.01; done"), stdout=file)
    await until(lambda: len(output.read_text().split("\n")) == 3)
    lines = output.read_text().splitlines()
    lines.remove("still there")
    copy = tree.identify(int(lines[0]))
    assert copy is not None

    process.kill()
    process.wait()
    # The copy lives on, and the agent ends all the same.
    await until(lambda: tree.find_by_marker(nothing_left) == [copy], seconds=5)
    tree.send_signal(copy, signal.SIGKILL)


async def test_a_released_guard_signals_no_process() -> None:
    sleeper = started(["sleep", "1000"], env=owned_by("some-token", {}))
    guard = Guard("some-token")
    guard.watch(identified(sleeper))
    async with asyncio.timeout(60):
        await guard.release()
        await guard.release()
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()


async def test_a_guard_never_signals_a_group_whose_number_was_reused() -> None:
    """Ours: the leader's start time tells a stranger with the same number."""
    reused = started(["sleep", "1000"])
    known = started(["sleep", "1000"])
    guard = Guard("another-token")
    guard.watch(structs.replace(identified(reused), started=1))
    guard.watch(identified(known))
    # As if we had vanished.
    os.close(guard._pipe)
    _running.discard(guard)
    assert guard._process is not None
    assert known.wait(10) == -signal.SIGTERM
    guard._process.wait(10)
    assert reused.poll() is None
    reused.kill()
    reused.wait()


async def test_a_guard_that_was_killed_does_not_get_in_the_way() -> None:
    async with asyncio.timeout(60), ProcessTransport("cat -u") as transport:
        assert transport._child is not None
        guard = transport._child._guard._process
        assert guard is not None
        # Reaped, too, as a careless `os.wait()` somewhere in the program would do.
        guard.kill()
        os.waitpid(guard.pid, 0)  # noqa: ASYNC222
        transport.send(b"{}")
        assert await transport.receive() == [b"{}"]
    assert transport.returncode == 0


async def test_a_guard_that_was_stopped_is_killed_when_dismissed() -> None:
    guard = Guard("a-third-token")
    assert guard._process is not None
    guard._process.send_signal(signal.SIGSTOP)
    async with asyncio.timeout(60):
        await guard.release()


def started(command: list[str], env: dict[str, str] | None = None, stdout: IO[bytes] | None = None) -> Popen[bytes]:
    return Popen(command, env=env, stdout=stdout, start_new_session=True)


def identified(process: Popen[bytes]) -> tree.Process:
    found = tree.identify(process.pid)
    assert found is not None
    return found
