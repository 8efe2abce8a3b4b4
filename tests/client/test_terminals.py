"""Commands for agents: each belongs to its session, runs where it may, and ends with it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from duologue.client.services.terminals import Terminals, new_id
from duologue.conversation.work_state import TerminalExit
from duologue.errors import InvalidParams, InvalidRequest, ResourceNotFound
from duologue.protocol.values import TerminalOutputResult
from duologue.sanitize import strip_terminal_controls
from duologue.transports.process import process_tree as tree
from tests.transports.conftest import nothing_left
from tests.transports.waiting import until

__all__ = ["nothing_left"]

pytestmark = pytest.mark.timeout(60)

FOR_EVER = ["sleep", "1000"]


async def create(
    terminals: Terminals,
    directory: Path,
    command: str,
    *args: str,
    session_id: str = "s",
    cwd: object = None,
    env: dict[str, str] | None = None,
    limit: int | None = None,
) -> str:
    where = str(directory if cwd is None else cwd)
    return await terminals.create(
        session_id, command, args, env=env or {}, cwd=where, roots=[str(directory)], limit=limit
    )


async def printed(terminals: Terminals, directory: Path, command: str, *args: str, **options: object) -> str:
    terminal_id = await create(terminals, directory, command, *args, **options)  # type: ignore[arg-type]  # those of create
    assert await terminals.wait("s", terminal_id) == TerminalExit(exit_code=0)
    return terminals.output("s", terminal_id).output


# --- what is started


@pytest.mark.fault("TRM-18")
async def test_arguments_are_passed_as_they_are(tmp_path: Path) -> None:
    terminals = Terminals()
    odd = ["a b", "'", '"', ";", "$(x)", "`x`", "line\nbreak", "*", "", "\\"]

    shown = await printed(terminals, tmp_path, sys.executable, "-c", "import sys; print(sys.argv[1:])", *odd)
    assert shown == f"{odd}\n"
    await terminals.aclose()


@pytest.mark.parametrize(
    ("line", "expected"),
    [("echo hello", "hello\n"), ("echo 'a  b'", "a  b\n"), ("echo a; echo b", "a\nb\n"), ("echo $((1+1))", "2\n")],
)
async def test_a_whole_line_without_arguments_is_run_as_one(tmp_path: Path, line: str, expected: str) -> None:
    terminals = Terminals()

    assert await printed(terminals, tmp_path, line) == expected
    await terminals.aclose()


async def test_where_there_is_no_shell_a_line_for_one_is_refused(tmp_path: Path) -> None:
    terminals = Terminals(shell=None)

    assert await printed(terminals, tmp_path, "echo hello") == "hello\n"
    with pytest.raises(InvalidParams, match="a line for a shell"):
        await create(terminals, tmp_path, "echo a; echo b")
    await terminals.aclose()


@pytest.mark.fault("TRM-17")
@pytest.mark.parametrize("command", ["", " ", "no-such-command", "/", "./missing", "a\0b", "not-executable"])
async def test_a_command_that_cannot_be_started_is_an_error_and_leaves_no_terminal(
    tmp_path: Path, command: str
) -> None:
    terminals = Terminals(max_per_session=1)
    (tmp_path / "not-executable").touch()
    program = f"./{command}" if command == "not-executable" else command

    with pytest.raises(InvalidParams) as refused:
        await create(terminals, tmp_path, program, "argument")
    assert "/proc/" not in refused.value.message
    await create(terminals, tmp_path, "true")
    await terminals.aclose()


@pytest.mark.fault("TRM-20")
async def test_a_command_runs_inside_the_sessions_directories_or_not_at_all(tmp_path: Path) -> None:
    terminals = Terminals()
    project, outside = tmp_path / "project", tmp_path / "project-evil"
    (project / "sub").mkdir(parents=True)
    outside.mkdir()
    (project / "file").touch()
    (project / "link").symlink_to(outside)
    (project / "inner").symlink_to("sub")

    for cwd in (
        outside,
        tmp_path,
        "/",
        project / "missing",
        project / "file",
        project / "link",
        project / "..",
        "sub",
        "",
        "\0",
    ):
        with pytest.raises(InvalidParams, match="not a directory inside"):
            await create(terminals, project, "pwd", cwd=cwd)
    assert await printed(terminals, project, "pwd", "-P", cwd=project / "inner") == f"{project / 'sub'}\n"
    assert await printed(terminals, project, "pwd") == f"{project}\n"
    await terminals.aclose()


@pytest.mark.fault("TRM-19")
@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "IFS", "NODE_OPTIONS"),
        *("PYTHONPATH", "PYTHONSTARTUP", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "BASH_FUNC_ls%%", "ld_preload"),
        *("DUOLOGUE_OWNER", "PERL5OPT", "RUBYOPT", "GIT_CONFIG_COUNT"),
    ],
)
async def test_variables_that_can_run_another_program_are_rejected_unless_allowed(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidParams, match="can make another program run"):
        await create(Terminals(), tmp_path, "env", env={"FINE": "1", name: "x"})

    terminals = Terminals(allow_env={name})
    if name != "PATH":
        assert await create(terminals, tmp_path, "true", env={name: ""})
    await terminals.aclose()


@pytest.mark.fault("TRM-19")
@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
async def test_an_invalid_environment_variable_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidParams):
        await create(Terminals(), tmp_path, "true", env={name: "x"})


@pytest.mark.fault("TRM-21")
async def test_our_own_secrets_are_not_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
    terminals = Terminals(env={"OURS": "yes"})

    shown = await printed(terminals, tmp_path, "env", env={"THEIRS": "yes"})
    assert "hunter2" not in shown
    assert {"OURS=yes", "THEIRS=yes", f"PATH={os.environ['PATH']}"} <= set(shown.splitlines())
    await terminals.aclose()


async def test_a_program_is_never_looked_for_in_the_directory_it_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "true").write_text("#!/bin/sh\necho planted\n")
    (tmp_path / "true").chmod(0o755)
    monkeypatch.setenv("PATH", f".:{os.pathsep}sub{os.pathsep}{os.environ['PATH']}")
    terminals = Terminals()

    assert await printed(terminals, tmp_path, "true") == ""
    await terminals.aclose()


@pytest.mark.fault("TRM-22")
async def test_a_command_that_reads_gets_the_end_of_its_input_at_once(tmp_path: Path) -> None:
    terminals = Terminals()

    assert await printed(terminals, tmp_path, "cat") == ""
    await terminals.aclose()


# --- ids


@pytest.mark.fault("TRM-15")
async def test_unknown_released_and_foreign_terminals_are_the_same_nothing(tmp_path: Path) -> None:
    terminals = Terminals()
    another = terminals.for_agent()
    foreign = await create(terminals, tmp_path, *FOR_EVER, session_id="other")
    released = await create(terminals, tmp_path, "true")
    await terminals.release("s", released)
    same_session = await create(another, tmp_path, *FOR_EVER)

    for terminal_id in ("unknown", "", released, foreign, same_session):
        messages: set[tuple[int, str, object]] = set()
        for act in (terminals.wait, terminals.kill, terminals.release):
            with pytest.raises(ResourceNotFound) as refused:
                await act("s", terminal_id)
            messages.add((refused.value.code, refused.value.message, refused.value.data))
        with pytest.raises(ResourceNotFound) as refused:
            terminals.output("s", terminal_id)
        messages.add((refused.value.code, refused.value.message, refused.value.data))
        assert messages == {(-32002, "no such terminal", None)}
    assert terminals.output("other", foreign).exit is None
    await terminals.aclose()
    assert another.output("s", same_session).exit is None
    await another.aclose()


@pytest.mark.fault("TRM-16")
def test_ids_never_repeat_and_say_nothing_about_each_other(
    chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    count = 100_000 * chaos_factor
    ids = [new_id() for _ in range(count)]
    record_property("count", f"{count:,} ids")

    assert len(set(ids)) == count
    # 128 bits of chance each: neighbours share no more than chance would have it.
    secrets = [id.removeprefix("term_") for id in ids]
    assert {len(secret) for secret in secrets} == {22}
    assert not any(one[:8] == two[:8] or one[-8:] == two[-8:] for one, two in pairwise(secrets))


@pytest.mark.fault("TRM-11")
async def test_one_terminal_too_many_is_refused_until_one_is_released(tmp_path: Path) -> None:
    terminals = Terminals()
    ids = await asyncio.gather(*(create(terminals, tmp_path, *FOR_EVER) for _ in range(32)))

    with pytest.raises(InvalidRequest, match="32 terminals are open"):
        await create(terminals, tmp_path, "true")
    other = await create(terminals, tmp_path, "true", session_id="other")
    await terminals.kill("s", ids[0])
    with pytest.raises(InvalidRequest, match="32 terminals are open"):
        await create(terminals, tmp_path, "true")
    await terminals.release("s", ids[0])
    assert await create(terminals, tmp_path, "true") not in {*ids, other}
    await terminals.aclose()


# --- output


@pytest.mark.fault("TRM-01", "TRM-02")
@pytest.mark.rule(107)
async def test_the_agents_limit_counts_up_to_our_own(tmp_path: Path) -> None:
    terminals = Terminals(output_limit=6, hard_cap=8)

    async def output_within(limit: int | None) -> tuple[str, bool]:
        terminal_id = await create(terminals, tmp_path, "printf", "12345678é", limit=limit)
        await terminals.wait("s", terminal_id)
        output = terminals.output("s", terminal_id)
        return output.output, output.truncated

    assert await output_within(None) == ("5678é", True)
    assert await output_within(3) == ("8é", True)
    assert await output_within(1) == ("", True)
    assert await output_within(0) == ("", True)
    assert await output_within(100) == ("345678é", True)
    assert await output_within(2**63) == ("345678é", True)
    await terminals.aclose()


@pytest.mark.rule(106, 108)
async def test_output_can_be_read_and_watched_while_the_command_runs(tmp_path: Path) -> None:
    terminals = Terminals()
    go = tmp_path / "go"
    script = f"printf 'e\\303'; while [ ! -e {go} ]; do sleep 0.01; done; printf '\\251\\377'"
    terminal_id = await create(terminals, tmp_path, "sh", "-c", script)
    received: list[str] = []
    stop = terminals.for_agent().watch(terminal_id, received.append)

    await until(lambda: terminals.output("s", terminal_id).output == "e")
    assert terminals.output("s", terminal_id).exit is None
    go.touch()
    assert await terminals.wait("s", terminal_id) == TerminalExit(exit_code=0)
    assert terminals.output("s", terminal_id).output == "eé\ufffd"
    assert "".join(received) in ("eé", "eé\ufffd", "é\ufffd")
    stop()
    stop()
    await terminals.aclose()


async def test_a_watcher_that_fails_is_dropped_and_the_others_are_still_called(tmp_path: Path) -> None:
    terminals = Terminals()
    go, received = tmp_path / "go", list[str]()
    terminal_id = await create(terminals, tmp_path, "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.01; done; echo hello")

    def fails(text: str) -> None:
        raise RuntimeError(text)

    terminals.watch(terminal_id, fails)
    terminals.watch(terminal_id, received.append)
    go.touch()
    await terminals.wait("s", terminal_id)
    assert received == ["hello\n"]
    with pytest.raises(ResourceNotFound):
        terminals.watch("made up by the agent", received.append)
    await terminals.aclose()


@pytest.mark.fault("TRM-24")
async def test_escape_codes_are_kept_as_data_and_taken_out_for_display(tmp_path: Path) -> None:
    terminals = Terminals()

    shown = await printed(
        terminals, tmp_path, "printf", "\\033]0;title\\007\\033[31mred\\033[0m\\033[2J\\033]52;c;eA==\\007"
    )
    assert shown == "\x1b]0;title\x07\x1b[31mred\x1b[0m\x1b[2J\x1b]52;c;eA==\x07"
    assert strip_terminal_controls(shown) == "\x1b[31mred\x1b[0m"
    await terminals.aclose()


@pytest.mark.rule(114)
async def test_output_of_a_released_terminal_can_still_be_shown_within_limits(tmp_path: Path) -> None:
    terminals = Terminals(shown=10)
    ids = [await create(terminals, tmp_path, "printf", text) for text in ("12345", "67890", "abc", "x" * 50)]
    for terminal_id in ids:
        await terminals.wait("s", terminal_id)
    assert terminals.shown(ids[0]) == TerminalOutputResult(output="12345", exit=TerminalExit(exit_code=0))

    for terminal_id in ids[:3]:
        await terminals.release("s", terminal_id)
    assert terminals.shown(ids[0]) is None
    assert terminals.shown(ids[1]) == TerminalOutputResult(output="67890", exit=TerminalExit(exit_code=0))
    assert terminals.shown(ids[2]) == TerminalOutputResult(output="abc", exit=TerminalExit(exit_code=0))
    await terminals.close_session("s")
    assert terminals.shown(ids[3]) == TerminalOutputResult(
        output="x" * 10, truncated=True, exit=TerminalExit(exit_code=0)
    )
    assert terminals.shown("unknown") is None


async def test_a_terminal_is_one_when_that_is_asked_for(tmp_path: Path) -> None:
    check = "import sys; print(sys.stdout.isatty())"
    for pty in (False, True):
        terminals = Terminals(pty=pty)
        assert (await printed(terminals, tmp_path, sys.executable, "-c", check)).strip() == str(pty)
        await terminals.aclose()


# --- the end


@pytest.mark.rule(109)
@pytest.mark.fault("TRM-12")
@pytest.mark.parametrize(
    ("line", "ended"),
    [
        ("exit 3", TerminalExit(exit_code=3)),
        ("kill -9 $$", TerminalExit(signal="SIGKILL")),
        ("kill -SEGV $$", TerminalExit(signal="SIGSEGV")),
    ],
)
async def test_it_ends_with_a_code_or_by_a_signal(tmp_path: Path, line: str, ended: TerminalExit) -> None:
    terminals = Terminals()

    assert await terminals.wait("s", await create(terminals, tmp_path, line)) == ended
    await terminals.aclose()


@pytest.mark.rule(110)
@pytest.mark.fault("TRM-06")
async def test_a_killed_terminal_still_answers(tmp_path: Path, nothing_left: str) -> None:
    terminals = Terminals()
    terminal_id = await create(terminals, tmp_path, "echo before; (sleep 1000 & sleep 1000) & exec sleep 1000")
    await until(lambda: terminals.output("s", terminal_id).output == "before\n")

    await terminals.kill("s", terminal_id)
    assert tree.find_by_marker(nothing_left) == []
    assert await terminals.wait("s", terminal_id) == TerminalExit(signal="SIGTERM")
    assert terminals.output("s", terminal_id) == TerminalOutputResult(
        output="before\n", exit=TerminalExit(signal="SIGTERM")
    )
    await terminals.kill("s", terminal_id)
    await terminals.aclose()


@pytest.mark.rule(111)
@pytest.mark.fault("TRM-14")
async def test_a_release_answers_pending_waits_and_ends_the_id(tmp_path: Path) -> None:
    terminals = Terminals()
    terminal_id = await create(terminals, tmp_path, *FOR_EVER)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(terminals.wait("s", terminal_id)) for _ in range(10)]
        await asyncio.wait(waiting, timeout=0)
        await terminals.release("s", terminal_id)

    assert {each.result() for each in waiting} == {TerminalExit(signal="SIGTERM")}
    with pytest.raises(ResourceNotFound):
        terminals.output("s", terminal_id)


@pytest.mark.fault("TRM-07", "TRM-23")
async def test_everything_ends_with_the_session_also_what_will_not(tmp_path: Path, nothing_left: str) -> None:
    terminals = Terminals(grace=0.1)
    stubborn = "trap '' TERM; echo ready; while :; do sleep 1; done"
    ids = [await create(terminals, tmp_path, "sh", "-c", stubborn, session_id=session) for session in "aab"]
    for session, terminal_id in zip("aab", ids, strict=True):
        await until(lambda: "ready" in terminals.output(session, terminal_id).output)  # noqa: B023

    async with asyncio.timeout(60):
        await terminals.close_session("a")
    assert terminals.output("b", ids[2]).exit is None
    assert [terminals.shown(each) for each in ids[:2]] == [
        TerminalOutputResult(output="ready\n", exit=TerminalExit(signal="SIGKILL"))
    ] * 2
    async with asyncio.timeout(60):
        await terminals.aclose()
    assert tree.find_by_marker(nothing_left) == []


@pytest.mark.fault("TRM-23")
async def test_a_command_that_starts_while_its_session_closes_ends_with_it(tmp_path: Path, nothing_left: str) -> None:
    terminals = Terminals()
    for steps in range(6):
        creating = asyncio.ensure_future(create(terminals, tmp_path, *FOR_EVER))
        for _ in range(steps):
            await asyncio.wait([creating], timeout=0)
        await terminals.close_session("s")
        try:
            await creating
        except InvalidRequest as refused:
            assert refused.message == "the session was closed"
        else:
            await terminals.close_session("s")
        assert tree.find_by_marker(nothing_left) == []
