"""A start that fails says what to do next, and leaves nothing behind."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from duologue.errors import CommandNotFound, StartError
from duologue.transports.process.command import LAUNCHER, program_name, split_command
from duologue.transports.process.transport import ProcessTransport


@pytest.mark.fault("LIF-10")
@pytest.mark.parametrize("command", ["", "  ", [], ["", "argument"]])
async def test_an_empty_command_is_refused(command: str | list[str]) -> None:
    with pytest.raises(CommandNotFound, match="the command is empty"):
        await ProcessTransport(command).__aenter__()


@pytest.mark.fault("LIF-10")
async def test_a_missing_command_says_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin:/nowhere")
    with pytest.raises(CommandNotFound, match=r"no command 'no-such-agent' in the 3 directories of PATH; install it"):
        await ProcessTransport("no-such-agent --acp").__aenter__()
    with pytest.raises(CommandNotFound, match="no such file: '/nowhere/agent'"):
        await ProcessTransport("/nowhere/agent").__aenter__()


@pytest.mark.fault("LIF-10")
async def test_a_file_that_may_not_be_run_is_named(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\n")
    with pytest.raises(CommandNotFound, match=r"cannot be run: make it executable"):
        await ProcessTransport([str(agent)]).__aenter__()
    with pytest.raises(CommandNotFound, match="cannot be run"):
        await ProcessTransport([str(tmp_path)]).__aenter__()


def executable(path: Path, content: bytes) -> list[str]:
    path.write_bytes(content)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return [str(path)]


@pytest.mark.fault("LIF-10")
async def test_a_program_for_another_machine_is_named(tmp_path: Path) -> None:
    elf_for_nothing_known = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xff\xff" + bytes(44)
    with pytest.raises(StartError, match="not a program for this machine"):
        await ProcessTransport(executable(tmp_path / "agent", elf_for_nothing_known)).__aenter__()


@pytest.mark.fault("LIF-10")
async def test_a_script_whose_interpreter_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = executable(tmp_path / "agent", b"#!/no/such/interpreter\n")
    with pytest.raises(CommandNotFound, match="the interpreter its first line names does not"):
        await ProcessTransport(command).__aenter__()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandNotFound, match="the interpreter its first line names does not"):
        await ProcessTransport("agent").__aenter__()


@pytest.mark.fault("LIF-10")
async def test_other_reasons_not_to_start_are_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"the working directory '.*/missing' does not exist"):
        await ProcessTransport("cat", cwd=tmp_path / "missing").__aenter__()
    with pytest.raises(StartError, match="No closing quotation"):
        await ProcessTransport("cat 'half").__aenter__()
    with pytest.raises(StartError, match="null byte"):
        await ProcessTransport(["cat", "a\0b"]).__aenter__()
    with pytest.raises(StartError, match="Argument list too long"):
        await ProcessTransport(["cat", "a" * 10_000_000]).__aenter__()


@pytest.mark.parametrize("command", ["duologue agent --v2", ["duologue", "agent", "--v2"]])
def test_duologue_is_run_by_this_interpreter(command: str | list[str]) -> None:
    assert split_command(command) == [sys.executable, "-P", "-m", "duologue", "agent", "--v2"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["gemini", "--acp"], "gemini"),
        (["/usr/bin/python3.11", "-u", "agent.py", "--verbose"], "agent.py"),
        (["python", "-m", "package.agent"], "package.agent"),
        (["python", "-c", "import this"], "python"),
        (["python"], "python"),
        (["node", "dist/index.js"], "dist/index.js"),
        ([sys.executable, *LAUNCHER, "agent.py:agent"], "agent.py:agent"),
    ],
)
def test_messages_name_the_script_and_not_its_interpreter(command: list[str], name: str) -> None:
    assert program_name(command) == name
