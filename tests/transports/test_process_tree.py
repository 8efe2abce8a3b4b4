"""Finding processes and signalling them by who they are, not by number."""

from __future__ import annotations

import os
import signal
from subprocess import PIPE, Popen

from msgspec import structs

from duologue.transports.process import process_tree as tree
from duologue.transports.process.process_tree import Process
from tests.transports.programs import shell
from tests.transports.waiting import until


def test_a_process_is_its_pid_and_its_start_time() -> None:
    us = tree.identify(os.getpid())
    assert us is not None
    assert tree.is_alive(us)
    assert not tree.is_alive(Process(us.pid, us.started + 1))


def test_the_name_of_a_process_may_hold_anything() -> None:
    with Popen(shell("printf 'a) R 1 (' >/proc/$$/comm; echo ready; cat"), stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        found = tree.identify(process.pid)
        assert found is not None
        ours = tree.identify(os.getpid())
        assert ours is not None
        assert found.started >= ours.started


def test_a_process_that_was_not_reaped_yet_is_not_alive() -> None:
    process = Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert tree.identify(process.pid) is None
    process.wait()


async def test_descendants_are_found_through_all_generations_up_to_a_limit() -> None:
    nap = "sleep 1000; true"
    with Popen(shell(f"sh -c '{nap}' & sh -c 'sh -c \"{nap}\"; true' & wait")) as process:  # noqa: ASYNC220
        await until(lambda: len(tree.descendants(process.pid)) == 5)
        found = tree.descendants(process.pid)
        assert len(tree.descendants(process.pid, limit=2)) == 2
        for one in found:
            tree.send_signal(one, signal.SIGKILL)


async def test_marked_processes_are_found_wherever_they_are() -> None:
    env = {**os.environ, "SOME_NAME": "a-token-of-ours"}
    command = shell("setsid sleep 1000 & exec sleep 1000")
    with Popen(command, env=env, start_new_session=True):  # noqa: ASYNC220
        await until(lambda: len(tree.find_by_marker("a-token-of-ours")) == 2)
        assert len(tree.find_by_marker("a-token-of-ours", limit=1)) == 1
        for one in tree.find_by_marker("a-token-of-ours"):
            tree.send_signal(one, signal.SIGKILL)
    await until(lambda: tree.find_by_marker("a-token-of-ours") == [])


def test_a_signal_for_an_ended_process_reaches_no_other() -> None:
    process = Popen(["sleep", "1000"])
    found = tree.identify(process.pid)
    assert found is not None
    tree.send_signal(structs.replace(found, started=found.started - 1), signal.SIGKILL)
    assert process.poll() is None
    tree.send_signal(found, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    tree.send_signal(found, signal.SIGKILL)
