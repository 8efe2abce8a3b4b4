"""A command: how it starts, what it says, how it ends, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import statistics
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from duologue.errors import CommandNotFound, StartError
from duologue.local.commands import CommandExit, RunningCommand
from duologue.transports.process import process_tree as tree
from tests.memory import peak_bytes, reset_peak
from tests.transports.programs import python, shell
from tests.transports.waiting import until

HERE = Path(__file__).parent


async def ran(argv: list[str], **options: object) -> tuple[str, CommandExit]:
    """Run a command; return its output and how it ended."""
    async with asyncio.timeout(60), await RunningCommand.start(argv, cwd=HERE, **options) as command:  # type: ignore[arg-type]  # the options of start
        ended = await command.wait()
        return command.output()[0], ended


async def until_output(command: RunningCommand, text: str) -> None:
    """Wait until it has said this."""
    await until(lambda: text in command.output()[0])


async def test_a_command_runs_in_its_directory_and_says_all_in_one_stream(tmp_path: Path) -> None:
    async with await RunningCommand.start(shell("pwd; echo oops >&2; echo end"), cwd=tmp_path) as command:
        assert await command.wait() == CommandExit(exit_code=0)
        assert command.output() == (f"{tmp_path}\noops\nend\n", False)
        assert command.exit == CommandExit(exit_code=0)
        assert command.escaped == []


@pytest.mark.rule(106, 108)
async def test_output_is_there_while_it_runs_and_the_exit_only_afterwards() -> None:
    async with await RunningCommand.start(shell("echo early; exec sleep 1000"), cwd="/") as command:
        await until_output(command, "early\n")
        assert command.exit is None
        assert tree.identify(command.pid) is not None


@pytest.mark.fault("TRM-01", "TRM-02")
async def test_the_limit_is_that_of_the_command() -> None:
    async with await RunningCommand.start(["printf", "12345é"], cwd="/", output_limit=4) as command:
        await command.wait()
        assert command.output() == ("45é", True)
    async with await RunningCommand.start(["printf", "12345é"], cwd="/", output_limit=7) as command:
        await command.wait()
        assert command.output() == ("12345é", False)


@pytest.mark.fault("TRM-03", "TRM-05")
async def test_a_flood_of_output_takes_bounded_memory_and_is_passed_on_at_once(
    chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    mebibytes = min(100 * chaos_factor, 10 * 1024)
    record_property("count", f"{mebibytes} MiB")
    before = reset_peak()
    argv = ["dd", "if=/dev/zero", "bs=1M", f"count={mebibytes}", "status=none"]
    answers: list[float] = []
    async with (
        asyncio.timeout(20 * chaos_factor),
        await RunningCommand.start(argv, cwd="/", output_limit=2**20) as command,
    ):
        while command.exit is None:
            began = time.perf_counter()
            command.output()
            await asyncio.sleep(0)
            answers.append(time.perf_counter() - began)
        assert command.exit == CommandExit(exit_code=0)
        text, is_cut = command.output()
    assert len(text) == 2**20
    assert is_cut
    # Not the slowest: that one says how busy the machine is.
    assert statistics.median(answers) < 0.1
    assert len(answers) > 10
    assert peak_bytes() - before < 32 * 2**20


@pytest.mark.fault("TRM-04")
async def test_a_character_cut_by_the_end_is_marked() -> None:
    assert await ran(["printf", r"a\303\251\346\227"]) == ("aé\ufffd", CommandExit(exit_code=0))


@pytest.mark.fault("TRM-06")
async def test_kill_ends_a_shell_with_children_and_grandchildren_and_leaves_what_was_said(nothing_left: str) -> None:
    async with (
        asyncio.timeout(60),
        await RunningCommand.start(
            shell("sh -c 'sleep 1000 & sleep 1000' & sleep 1000 & echo up; wait"), cwd="/"
        ) as command,
    ):
        await until_output(command, "up")
        await until(lambda: len(tree.find_by_marker(nothing_left)) == 5)
        await command.kill()
        assert tree.find_by_marker(nothing_left) == []
        assert await command.wait() == CommandExit(signal="SIGTERM")
        assert command.output() == ("up\n", False)
        await command.kill()


@pytest.mark.fault("TRM-07")
async def test_a_command_that_ignores_sigterm_is_killed_after_the_grace() -> None:
    async with (
        asyncio.timeout(60),
        await RunningCommand.start(
            shell("trap '' TERM; echo deaf; while :; do sleep 1000; done"), cwd="/", grace=0.2
        ) as command,
    ):
        await until_output(command, "deaf")
        began = time.monotonic()
        await command.kill()
        assert 0.2 <= time.monotonic() - began < 60
        assert await command.wait() == CommandExit(signal="SIGKILL")


async def test_a_command_that_heeds_sigterm_may_say_a_last_word() -> None:
    async with (
        asyncio.timeout(60),
        await RunningCommand.start(
            shell("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"), cwd="/"
        ) as command,
    ):
        await until_output(command, "up")
        await command.kill()
        assert await command.wait() == CommandExit(exit_code=7)
        assert command.output()[0].endswith("bye\n")


@pytest.mark.fault("TRM-08")
@pytest.mark.parametrize("pty", [False, True])
async def test_its_end_is_its_own_although_a_child_holds_its_output(pty: bool, nothing_left: str) -> None:
    async with (
        asyncio.timeout(60),
        await RunningCommand.start(shell("sleep 1000 & echo started"), cwd="/", pty=pty) as command,
    ):
        assert await command.wait() == CommandExit(exit_code=0)
        assert command.output() == ("started\n", False)
        assert len(tree.find_by_marker(nothing_left)) == 1
    assert tree.find_by_marker(nothing_left) == []


@pytest.mark.fault("TRM-08")
async def test_later_output_of_a_background_child_is_kept_too(tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    async with (
        asyncio.timeout(60),
        await RunningCommand.start(shell(f"(read -r _ < {go}; echo later) & echo now"), cwd="/") as command,
    ):
        await command.wait()
        assert command.output() == ("now\n", False)
        fifo = os.open(go, os.O_RDWR)
        os.write(fifo, b"\n")
        await until_output(command, "now\nlater\n")
        os.close(fifo)


@pytest.mark.fault("TRM-09")
@pytest.mark.parametrize(
    "script",
    [
        "setsid sh -c 'trap \"\" HUP TERM; echo away; while :; do sleep 1000; done' & wait",
        "(setsid sh -c 'echo away; exec sleep 1000' &) ; exit 0",
        "nohup setsid sh -c 'echo away; exec sleep 1000' & exit 0",
    ],
)
async def test_a_child_in_a_session_of_its_own_is_ended_too(script: str, nothing_left: str) -> None:
    async with asyncio.timeout(60):
        command = await RunningCommand.start(shell(script), cwd="/", grace=0.2)
        await until_output(command, "away")
        await command.release()
        assert tree.find_by_marker(nothing_left) == []
        assert command.escaped == []


BOMB = python(
    """
    import os, signal
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    print("lit", flush=True)
    for n in range(1_000):
        if os.fork() == 0:
            if n % 3 == 0:
                os.setsid()
            signal.pause()
    signal.pause()
    """
)


@pytest.mark.fault("TRM-10")
async def test_a_fork_bomb_is_stopped_while_everything_else_goes_on(nothing_left: str) -> None:
    longest_pause = 0.0
    async with asyncio.timeout(60), await RunningCommand.start(BOMB, cwd="/", max_processes=100) as command:
        while command.exit is None:
            began = time.monotonic()
            await asyncio.sleep(0)
            longest_pause = max(longest_pause, time.monotonic() - began)
        assert command.exit == CommandExit(signal="SIGKILL")
        assert command.output() == ("lit\n", False)
        assert tree.find_by_marker(nothing_left) == []
    assert 0 < longest_pause < 1


@pytest.mark.fault("TRM-12")
@pytest.mark.rule(109)
@pytest.mark.parametrize("code", [0, 1, 3, 127, 128, 255])
async def test_the_exit_code_is_reported(code: int) -> None:
    assert await ran(shell(f"exit {code}")) == ("", CommandExit(exit_code=code, signal=None))


@pytest.mark.fault("TRM-12")
@pytest.mark.rule(109)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSEGV", "SIGHUP", "SIGABRT", "SIGUSR1"])
async def test_the_signal_is_reported_by_name(name: str) -> None:
    number = int(signal.Signals[name])

    assert await ran(shell(f"ulimit -c 0; kill -{number} $$")) == ("", CommandExit(exit_code=None, signal=name))


@pytest.mark.fault("TRM-12")
async def test_a_signal_without_a_name_is_reported_by_number() -> None:
    assert (await ran(shell("kill -40 $$")))[1] == CommandExit(signal="SIG40")


@pytest.mark.fault("TRM-13")
async def test_all_who_wait_get_the_same_whenever_they_come(tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    async with (
        asyncio.timeout(60),
        await RunningCommand.start(shell(f"read -r line < {go}; exit 5"), cwd="/") as command,
    ):
        async with asyncio.TaskGroup() as group:
            waiters = [group.create_task(command.wait()) for _ in range(10)]
            fifo = os.open(go, os.O_RDWR)
            os.write(fifo, b"\n")
        late = await command.wait()
    after = await command.wait()
    os.close(fifo)

    assert {waiter.result() for waiter in waiters} == {late} == {after} == {CommandExit(exit_code=5)}


@pytest.mark.fault("TRM-14")
async def test_a_task_that_waits_during_a_release_gets_the_final_status() -> None:
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        command = await RunningCommand.start(["sleep", "1000"], cwd="/")
        waiters = [group.create_task(command.wait()) for _ in range(5)]
        await asyncio.sleep(0)
        releases = [group.create_task(command.release()) for _ in range(3)]

    assert [waiter.result() for waiter in waiters] == [CommandExit(signal="SIGTERM")] * 5
    assert [release.result() for release in releases] == [None] * 3
    await command.release()
    await command.kill()
    assert command.output() == ("", False)


@pytest.mark.fault("TRM-14")
async def test_a_cancelled_release_kills_at_once_and_wakes_waiting_tasks(nothing_left: str) -> None:
    async with asyncio.timeout(60):
        command = await RunningCommand.start(
            shell("trap '' TERM; echo deaf; while :; do sleep 1000; done"), cwd="/", grace=1000
        )
        await until_output(command, "deaf")
        async with asyncio.TaskGroup() as group:
            waiter = group.create_task(command.wait())
            release = group.create_task(command.release())
            await asyncio.sleep(0.01)
            release.cancel()
        assert waiter.result() == CommandExit(signal="SIGKILL")
        assert tree.find_by_marker(nothing_left) == []
        await command.release()


@pytest.mark.fault("TRM-17")
@pytest.mark.parametrize("argv", [[], [""], ["no-such-command"], ["/no/such/command"], [str(HERE)], [__file__]])
async def test_a_command_that_is_none_is_an_error_at_the_start(argv: list[str], nothing_left: str) -> None:
    with pytest.raises(CommandNotFound):
        await RunningCommand.start(argv, cwd="/")

    assert tree.find_by_marker(nothing_left) == []


@pytest.mark.fault("TRM-17")
@pytest.mark.parametrize("argv", [["a\0b"], ["echo", "a\0b"], ["echo", "x" * 10**7], ["echo", "\ud800"]])
async def test_arguments_that_cannot_be_passed_are_an_error_at_the_start(argv: list[str]) -> None:
    with pytest.raises(StartError):
        await RunningCommand.start(argv, cwd="/")


@pytest.mark.fault("TRM-17")
@pytest.mark.parametrize("pty", [False, True])
async def test_without_descriptors_nothing_starts_and_nothing_is_left(pty: bool, nothing_left: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    refusals = 0
    lowest_free = os.dup(0)
    os.close(lowest_free)
    for most in range(lowest_free, lowest_free + 200):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        try:
            command = await RunningCommand.start(["true"], cwd="/", pty=pty)
        except StartError:
            refusals += 1
            continue
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await command.release()
        break
    assert refusals > 3
    assert tree.find_by_marker(nothing_left) == []


@pytest.mark.fault("TRM-17")
@pytest.mark.parametrize("cwd", ["/no/such/directory", __file__])
async def test_a_directory_that_is_none_is_an_error_at_the_start(cwd: str) -> None:
    with pytest.raises(StartError, match="the working directory"):
        await RunningCommand.start(["true"], cwd=cwd)


@pytest.mark.fault("TRM-18")
async def test_arguments_are_passed_as_they_are() -> None:
    odd = ["a b", "'", '"', ";", "$(id)", "`id`", "${HOME}", "*", "~", "\n", "", "\\", "|", "&", "-", "é😀", "\udcff"]
    argv = python("import os, sys; sys.stdout.buffer.write(b'|'.join(map(os.fsencode, sys.argv[1:])))", *odd)

    async with asyncio.timeout(60), await RunningCommand.start(argv, cwd="/") as command:
        await command.wait()
        expected = b"|".join(map(os.fsencode, odd)).decode("utf-8", "replace")
        assert command.output() == (expected, False)


@pytest.mark.fault("TRM-19")
@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0y"}])
async def test_odd_environment_names_are_refused(env: dict[str, str]) -> None:
    with pytest.raises(StartError, match="environment variable"):
        await RunningCommand.start(["true"], cwd="/", env=env)


@pytest.mark.fault("TRM-19")
async def test_given_variables_override_inherited_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "ours")

    assert (await ran(shell("echo $LANG $NAMED"), env={"LANG": "theirs", "NAMED": "é =x"}))[0] == "theirs é =x\n"


@pytest.mark.fault("TRM-21")
async def test_our_secrets_stay_out_of_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("LD_PRELOAD_HINT", "secret")
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))

    text, _ = await ran([sys.executable, "-c", "import os; print(sorted(os.environ))"])

    assert "PATH" in text
    for name in ("API_KEY", "LD_PRELOAD_HINT", "PYTHONPATH"):
        assert name not in text
    assert "secret" in (await ran(["env"], env={"API_KEY": os.environ["API_KEY"]}))[0]


@pytest.mark.fault("TRM-22")
@pytest.mark.parametrize("pty", [False, True])
async def test_a_command_that_reads_finds_the_end_at_once(pty: bool) -> None:
    assert await ran(shell("cat; read -r line || echo nothing"), pty=pty) == ("nothing\n", CommandExit(exit_code=0))


async def test_in_a_terminal_output_is_as_it_was_written_and_has_a_size() -> None:
    script = "import os, sys; print(os.isatty(1), os.isatty(2), os.isatty(0), os.get_terminal_size(1)[:2])"

    text, _ = await ran([sys.executable, "-c", script], pty=True)

    assert text == "True True False (80, 24)\n"


async def test_all_output_to_a_terminal_is_read_at_the_end() -> None:
    async with asyncio.timeout(60), await RunningCommand.start(["seq", "1", "2000"], cwd="/", pty=True) as command:
        # It ends before any of its output is read; a terminal hands that out in many small pieces.
        os.waitid(os.P_PID, command.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
        assert await command.wait() == CommandExit(exit_code=0)
        assert command.output() == ("".join(f"{n}\n" for n in range(1, 2001)), False)


async def test_a_released_command_leaves_no_references() -> None:
    command = await RunningCommand.start(["true"], cwd="/")
    await command.release()
    held = weakref.ref(command)
    del command

    # What was due in this turn of the event loop may still hold it.
    await asyncio.sleep(0)
    gc.collect()
    assert held() is None


async def test_every_piece_of_output_is_passed_on_as_it_arrives() -> None:
    pieces: list[bytes] = []

    text, _ = await ran(shell("seq 1 5000"), on_output=pieces.append)

    assert b"".join(pieces).decode() == text == "".join(f"{n}\n" for n in range(1, 5001))


@pytest.mark.fault("TRM-24")
async def test_escape_codes_are_kept_as_data() -> None:
    assert (await ran(["printf", r"\033]0;title\007\033[31mred"]))[0] == "\x1b]0;title\x07\x1b[31mred"


@pytest.mark.fault("TRM-25")
async def test_released_right_after_the_start_nothing_is_left_and_the_status_is_known(
    nothing_left: str, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    rounds = 100 * chaos_factor
    record_property("count", rounds)
    for n in range(rounds):
        async with asyncio.timeout(60):
            command = await RunningCommand.start(["true"] if n % 2 else ["sleep", "1000"], cwd="/", pty=n % 10 == 0)
            await command.release()
            assert await command.wait() in (CommandExit(exit_code=0), CommandExit(signal="SIGTERM"))
    assert tree.find_by_marker(nothing_left) == []


@pytest.mark.fault("TRM-26")
async def test_the_pid_of_an_ended_command_is_not_reused_until_it_is_released() -> None:
    """A zombie keeps its pid and its group; once let go, neither is signalled again."""
    async with asyncio.timeout(60):
        command = await RunningCommand.start(["true"], cwd="/")
        await command.wait()
        os.killpg(command.pid, 0)
        await command.release()
        with pytest.raises(ProcessLookupError):
            os.killpg(command.pid, 0)


KILLED = python(
    """
    import asyncio, os, signal
    from duologue.local.commands import RunningCommand

    async def main():
        await RunningCommand.start(["sh", "-c", "trap '' TERM; sleep 1000 & wait"], cwd="/")
        await RunningCommand.start(["setsid", "sleep", "1000"], cwd="/", pty=True)
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())
    """
)


async def test_if_we_are_killed_our_commands_end_with_us(nothing_left: str) -> None:
    process = await asyncio.create_subprocess_exec(*KILLED, cwd=HERE.parents[1])
    async with asyncio.timeout(60):
        assert await process.wait() == -signal.SIGKILL
        await until(lambda: tree.find_by_marker(nothing_left) == [])
