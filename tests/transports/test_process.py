"""A child agent: how it starts, talks, fails and ends."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from pathlib import Path

import pytest

from duologue.errors import AgentExited, ConnectionLost, StartError
from duologue.transports.process import process_tree as tree
from duologue.transports.process.child import ShutdownTimeouts
from duologue.transports.process.environment import OWNER
from duologue.transports.process.transport import TAIL_BYTES, ProcessTransport
from tests.transports.programs import python, shell
from tests.transports.waiting import until

QUICK = ShutdownTimeouts(after_close=0.1, after_terminate=0.2, after_kill=2)
"""For children that are known not to leave by themselves."""


async def all_from(transport: ProcessTransport) -> tuple[list[bytes], AgentExited]:
    """Return all frames of a child that ends by itself, and its error."""
    frames: list[bytes] = []
    while True:
        try:
            frames += await transport.receive()
        except AgentExited as ended:
            return frames, ended


async def ending_of(command: str | list[str]) -> AgentExited:
    async with asyncio.timeout(60), ProcessTransport(command) as transport:
        _, ended = await all_from(transport)
    return ended


async def test_frames_go_to_a_child_and_are_echoed() -> None:
    async with asyncio.timeout(60), ProcessTransport("cat -u") as transport:
        transport.send(b'{"n":1}')
        assert await transport.receive() == [b'{"n":1}']
        was_running = transport.returncode is None
    assert was_running
    assert transport.returncode == 0
    assert transport.escaped == []
    assert await transport.receive() == []


async def test_a_string_is_split_but_no_shell_runs() -> None:
    async with asyncio.timeout(60), ProcessTransport("""echo '{"a": "$HOME ; `x`"}'""") as transport:
        assert await transport.receive() == [b'{"a": "$HOME ; `x`"}']


async def test_it_runs_in_the_named_directory(tmp_path: Path) -> None:
    async with asyncio.timeout(60), ProcessTransport("pwd", cwd=tmp_path) as transport:
        assert await transport.receive() == [os.fsencode(tmp_path)]


async def test_it_inherits_our_environment_and_what_is_named(
    monkeypatch: pytest.MonkeyPatch, nothing_left: str
) -> None:
    monkeypatch.setenv("A_KEY", "secret")
    script = f'echo "$A_KEY,$EXTRA,${{{OWNER}%%:*}}"'
    async with asyncio.timeout(60), ProcessTransport(shell(script), env={"EXTRA": "more"}) as transport:
        assert await transport.receive() == [f"secret,more,{nothing_left}".encode()]


async def test_it_can_be_given_the_safe_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "secret")
    command = shell('echo "$A_KEY,$EXTRA,${PATH:+path}"')
    async with asyncio.timeout(60), ProcessTransport(command, env={"EXTRA": "more"}, inherit_env=False) as transport:
        assert await transport.receive() == [b",more,path"]


@pytest.mark.fault("LIF-09")
@pytest.mark.parametrize("code", [0, 1, 127])
async def test_the_error_of_an_agent_that_exits_has_its_code_and_its_stderr(code: int) -> None:
    ended = await ending_of(shell(f"echo cannot find my key >&2; exit {code}"))
    assert (ended.exit_code, ended.signal, ended.stderr) == (code, None, "cannot find my key\n")
    assert str(ended) == f"'sh' exited with code {code}\ncannot find my key"


@pytest.mark.fault("LIF-09")
async def test_an_agent_that_is_killed_says_by_which_signal() -> None:
    ended = await ending_of(shell("kill -SEGV $$"))
    assert (ended.exit_code, ended.signal) == (None, "SIGSEGV")


async def test_output_that_an_agent_wrote_before_its_exit_is_received_first() -> None:
    async with asyncio.timeout(60), ProcessTransport(shell("seq 20000; printf last")) as transport:
        assert await transport.exited() == 0
        frames, _ = await all_from(transport)
    assert frames == [*(b"%d" % number for number in range(1, 20_001)), b"last"]


@pytest.mark.fault("LIF-13")
async def test_an_agent_that_closes_stdout_but_runs_on_is_a_lost_connection_and_is_stopped() -> None:
    command = shell("echo '{}'; exec >&-; exec sleep 1000")
    async with asyncio.timeout(60), ProcessTransport(command, timeouts=QUICK) as agent:
        assert await agent.receive() == [b"{}"]
        with pytest.raises(ConnectionLost, match="closed its stdout but keeps running") as lost:
            await agent.receive()
        assert not isinstance(lost.value, AgentExited)
    assert agent.returncode == -signal.SIGTERM


@pytest.mark.fault("LIF-14")
async def test_frames_of_an_agent_that_closes_stdin_are_still_received() -> None:
    chatter = shell("exec <&-; while :; do echo '{}'; sleep 0.01; done")
    async with asyncio.timeout(60), ProcessTransport(chatter, timeouts=QUICK) as transport:

        def sending_fails() -> bool:
            try:
                transport.send(b"{}")
            except ConnectionLost:
                return True
            return False

        await until(sending_fails)
        await transport.receive()
        assert await transport.receive() != []


@pytest.mark.fault("PRC-03")
@pytest.mark.parametrize(
    "wrapper",
    [
        "sh -c 'cat -u; true'",
        "sh -c 'sh -c \"cat -u; true\"; true'",
        "sh -c 'sleep 1000 & cat -u; wait'",
    ],
)
async def test_a_wrapper_and_the_real_agent_both_end(wrapper: str, nothing_left: str) -> None:
    async with asyncio.timeout(60), ProcessTransport(wrapper, timeouts=QUICK) as transport:
        transport.send(b"{}")
        assert await transport.receive() == [b"{}"]
        assert len(tree.find_by_marker(nothing_left)) >= 2
    assert tree.find_by_marker(nothing_left) == []


@pytest.mark.fault("PRC-04")
async def test_an_agent_that_ignores_sigterm_is_killed_as_the_last_step() -> None:
    stubborn = shell("trap '' TERM; echo '{}'; while :; do sleep 1; done")
    async with asyncio.timeout(60), ProcessTransport(stubborn, timeouts=QUICK) as transport:
        assert await transport.receive() == [b"{}"]
    assert transport.returncode == -signal.SIGKILL


@pytest.mark.fault("PRC-04")
async def test_an_agent_that_stopped_itself_is_ended() -> None:
    async with asyncio.timeout(60), ProcessTransport(shell("echo '{}'; kill -STOP $$"), timeouts=QUICK) as transport:
        assert await transport.receive() == [b"{}"]
    assert transport.returncode == -signal.SIGTERM


async def test_an_agent_that_leaves_when_its_input_closes_is_sent_no_signal() -> None:
    polite = shell("trap 'exit 9' TERM; while read -r line; do :; done; seq 100000; exit 4")
    async with asyncio.timeout(60), ProcessTransport(polite) as transport:
        pass
    assert transport.returncode == 4


@pytest.mark.fault("PRC-05")
@pytest.mark.parametrize("hide", ["setsid", "env -i setsid", "env -i"])
async def test_a_grandchild_in_a_session_of_its_own_is_found_and_ended(hide: str, nothing_left: str) -> None:
    script = f"{hide} sleep 1000 & echo $!; cat"
    async with asyncio.timeout(60), ProcessTransport(shell(script), timeouts=QUICK) as transport:
        [pid] = await transport.receive()
        await until(lambda: os.readlink(f"/proc/{int(pid)}/exe").endswith(("sleep", "coreutils")))
        grandchild = tree.identify(int(pid))
        assert grandchild is not None
    assert not tree.is_alive(grandchild)


@pytest.mark.fault("PRC-05")
async def test_an_orphan_in_a_session_of_its_own_is_found_by_its_mark() -> None:
    """Its parent is gone before we look, so no tree leads to it."""
    async with asyncio.timeout(60), ProcessTransport(shell("(setsid sleep 1000 & echo $!)")) as transport:
        [pid] = await transport.receive()
        with pytest.raises(AgentExited):
            await transport.receive()
        orphan = tree.identify(int(pid))
        assert orphan is not None
    assert not tree.is_alive(orphan)


@pytest.mark.fault("PRC-06")
async def test_the_end_is_known_from_the_exit_status_even_if_a_grandchild_keeps_stdout_open() -> None:
    async with asyncio.timeout(60), ProcessTransport(shell("sleep 1000 & echo '{}'; exit 3")) as transport:
        assert await transport.receive() == [b"{}"]
        with pytest.raises(AgentExited) as ended:
            await transport.receive()
    assert ended.value.exit_code == 3


@pytest.mark.fault("PRC-06")
async def test_a_grandchild_that_floods_stdout_does_not_hide_the_end() -> None:
    async with asyncio.timeout(60), ProcessTransport(shell("yes & exit 3"), timeouts=QUICK) as transport:
        await all_from(transport)


@pytest.mark.fault("PRC-08")
@pytest.mark.parametrize("source", ["yes an error", "cat /dev/zero"])
async def test_a_flood_on_stderr_is_drained_and_protocol_traffic_goes_on(source: str) -> None:
    script = f"{source} | head -c 104857600 >&2; echo '{{}}'; cat -u"
    async with asyncio.timeout(60), ProcessTransport(shell(script)) as transport:
        assert await transport.receive() == [b"{}"]
        transport.send(b"[]")
        assert await transport.receive() == [b"[]"]
        assert len(transport._tail._tail) <= 2 * TAIL_BYTES
        assert len(str(transport._tail)) >= TAIL_BYTES


@pytest.mark.fault("PRC-09")
async def test_stderr_is_shown_escaped() -> None:
    ended = await ending_of(shell(r"printf 'red \033[31m bad \377 bell \007 ok \303\251\n' >&2; exit 1"))
    assert ended.stderr == "red \\x1b[31m bad \\xff bell \\x07 ok é\n"
    assert str(ended).isprintable() or str(ended).replace("\n", "").isprintable()


async def test_stderr_can_be_watched_as_it_comes() -> None:
    pieces: list[bytes] = []
    async with asyncio.timeout(60), ProcessTransport(shell("echo 1 >&2; cat"), on_stderr=pieces.append):
        await until(lambda: pieces == [b"1\n"])


async def test_a_stderr_callback_that_fails_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: bytes) -> None:
        raise ValueError("not today")

    script = shell("echo 1 >&2; read -r line; echo 2 >&2; cat")
    async with asyncio.timeout(60), ProcessTransport(script, on_stderr=fail) as transport:
        await until(lambda: transport.stderr_tail == "1\n")
        transport.send(b"")
        await until(lambda: transport.stderr_tail == "1\n2\n")
    assert caplog.text.count("the stderr callback failed") == 1


@pytest.mark.fault("PRC-19")
async def test_many_agents_start_and_stop_at_once(chaos_factor: int, nothing_left: str) -> None:
    count = min(200, 50 * chaos_factor)
    ready = asyncio.Barrier(count)

    async def run_agent() -> int | None:
        async with ProcessTransport("cat -u", timeouts=ShutdownTimeouts(after_close=20)) as transport:
            transport.send(b"{}")
            assert await transport.receive() == [b"{}"]
            await ready.wait()
        return transport.returncode

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        runs = [tasks.create_task(run_agent()) for _ in range(count)]
    assert [task.result() for task in runs] == [0] * count
    assert tree.find_by_marker(nothing_left) == []


@pytest.mark.fault("PRC-20")
async def test_a_child_inherits_stdin_stdout_and_stderr_only(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        # Descriptor 3 is the open directory itself: listed, and gone afterwards.
        listing = python("import os; fd = '/proc/self/fd'; print(sorted(os.listdir(fd)), os.path.exists(fd + '/3'))")
        async with asyncio.timeout(60), ProcessTransport("cat"), ProcessTransport(listing) as transport:
            assert await transport.receive() == [b"['0', '1', '2', '3'] False"]


async def test_cancelling_the_close_kills_at_once(nothing_left: str) -> None:
    stubborn = shell("trap '' TERM; setsid sleep 1000 & echo '{}'; while :; do sleep 1; done")
    transport = ProcessTransport(stubborn)
    await transport.__aenter__()
    async with asyncio.timeout(60):
        assert await transport.receive() == [b"{}"]
    started = time.monotonic()
    closing = asyncio.create_task(transport.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await until(lambda: tree.find_by_marker(nothing_left) == [])  # a killed process ends a moment later
    assert time.monotonic() - started < 1.5
    await transport._until_gone()
    await transport._tail.gone.wait()


async def test_cancelling_the_start_leaves_nothing(nothing_left: str) -> None:
    opening = asyncio.create_task(ProcessTransport("cat").__aenter__())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert tree.find_by_marker(nothing_left) == []


async def test_closing_twice_or_before_the_start_does_nothing() -> None:
    transport = ProcessTransport("cat")
    await transport.aclose()
    async with asyncio.timeout(60), ProcessTransport("cat") as started:
        await started.aclose()
    assert started.returncode == 0
    assert transport.returncode is None
    with pytest.raises(StartError, match="not entered"):
        await transport.exited()


@pytest.mark.parametrize("missing", [errno.ENOSYS, errno.EPERM])
async def test_where_the_system_offers_no_pidfd_a_thread_waits_instead(
    missing: int, monkeypatch: pytest.MonkeyPatch, nothing_left: str
) -> None:
    def refuse(pid: int) -> int:
        raise OSError(missing, os.strerror(missing))

    monkeypatch.setattr("os.pidfd_open", refuse)
    async with asyncio.timeout(60), ProcessTransport(shell("setsid sleep 1000 & cat -u"), timeouts=QUICK) as transport:
        transport.send(b"{}")
        assert await transport.receive() == [b"{}"]
    assert transport.returncode == 0
    assert tree.find_by_marker(nothing_left) == []
    assert (await ending_of(shell("echo bye >&2; exit 3"))).stderr == "bye\n"


def is_no_pipe(fd: int) -> bool:
    return False


async def test_where_the_loop_cannot_watch_pipes_threads_carry_the_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours: this is how it works on Windows."""
    monkeypatch.setattr("duologue.transports.stdio.fd_streams._is_pipe", is_no_pipe)
    async with asyncio.timeout(60), ProcessTransport("cat -u") as transport:
        for number in range(1000):
            transport.send(b"%d" % number)
        frames: list[bytes] = []
        while len(frames) < 1000:
            frames += await transport.receive()
    assert frames == [b"%d" % number for number in range(1000)]
    ended = await ending_of(shell("echo last; echo words >&2; exit 3"))
    assert (ended.exit_code, ended.stderr) == (3, "words\n")
    held_open = await ending_of(shell("sleep 1000 & exit 4"))
    assert held_open.exit_code == 4


async def test_the_last_line_of_stderr_is_kept_where_threads_carry_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece that a thread reads waits for the loop; the end of stdout and the exit do not wait for it."""
    monkeypatch.setattr("duologue.transports.stdio.fd_streams._is_pipe", is_no_pipe)
    for _ in range(20):
        ended = await ending_of(shell("seq 100000 >&2; echo the last line >&2; exit 3"))

        assert ended.exit_code == 3
        assert ended.stderr.endswith("99999\n100000\nthe last line\n")


async def test_without_a_shell_there_is_no_guard_and_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("duologue.transports.process.guard.SHELL", "/no/such/shell")
    async with asyncio.timeout(60), ProcessTransport("cat -u") as transport:
        transport.send(b"{}")
        assert await transport.receive() == [b"{}"]
    assert transport.returncode == 0
    assert "/no/such/shell does not exist" in caplog.text


async def test_the_status_of_a_child_reaped_elsewhere_is_unknown() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        ended = await ending_of(shell("exit 3"))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert ended.exit_code == 255


async def test_more_descendants_than_one_scan_returns_all_end(nothing_left: str) -> None:
    """Spec: a tree scan returns 256 at most; scans are repeated."""
    many = shell("i=0; while [ $i -lt 300 ]; do setsid sleep 1000 & i=$((i + 1)); done; echo '{}'; cat")
    async with asyncio.timeout(60), ProcessTransport(many, timeouts=QUICK) as transport:
        assert await transport.receive() == [b"{}"]
        assert len(tree.find_by_marker(nothing_left, limit=1000)) > tree.SCAN_LIMIT
    assert tree.find_by_marker(nothing_left) == []
    assert transport.escaped == []
