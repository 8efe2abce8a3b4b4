"""Output of commands, shown while they run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duologue.cli.console.live_output import MOST_LINES, MOST_LIVE_LINES, LiveOutput, end_of
from duologue.client.services.terminals import Terminals
from tests.cli.program import duologue, terminal

WAITING = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second"


@pytest.mark.parametrize("command", ["run", "chat"])
def test_a_person_sees_the_output_of_a_command_before_it_ends(tmp_path: Path, command: str) -> None:
    prompt = f"/run sh -c '{WAITING}'"
    with terminal(tmp_path, *([command, "--yes"] if command == "chat" else [command, prompt, "--yes"])) as console:
        if command == "chat":
            console.until("›")
            console.type(f"{prompt}\r")
        console.until("○ execute")
        assert "second\n" not in console.until("    first\n")
        (tmp_path / "go").touch()
        assert console.until("● execute").count("    second\n") == 1
        console.until("end_turn")


def test_off_a_terminal_it_goes_to_stderr_once_and_in_its_place(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/run sh -c 'echo out; echo err >&2; exit 3'", "--yes")
    lines = [line for line in ended.stderr.splitlines() if "sh -c" not in line]

    assert lines.count("    out") == lines.count("    err") == 1
    assert "    exited with code 3" in lines
    assert "    out" not in ended.stdout


async def _start(terminals: Terminals, script: str, cwd: str) -> str:
    return await terminals.create("s", "sh", ["-c", script], env={}, cwd=cwd, roots=[cwd], limit=None)


async def _shown(script: str, cwd: Path, *, is_late: bool = False) -> list[str]:
    terminals, shown = Terminals(), list[str]()
    terminal_id = await _start(terminals, script, str(cwd))
    if is_late:
        await terminals.wait("s", terminal_id)
    live = LiveOutput(terminals, terminal_id, shown.append, lambda: True)
    await terminals.wait("s", terminal_id)
    await terminals.release("s", terminal_id)
    live.end()
    live.end()
    return shown


@pytest.mark.parametrize("is_late", [False, True])
async def test_every_line_is_shown_once_however_late_one_looks(tmp_path: Path, is_late: bool) -> None:
    async with asyncio.timeout(60):
        assert await _shown("printf 'a\\nb'; printf 'c\\nlast'", tmp_path, is_late=is_late) == ["a", "bc", "last"]


async def test_the_beginning_and_the_end_of_a_long_output_are_shown(tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        shown = await _shown("seq 1000", tmp_path)

    beginning = [str(number) for number in range(1, MOST_LIVE_LINES + 1)]
    left_out = 1000 - MOST_LIVE_LINES - MOST_LINES
    end = [str(number) for number in range(1000 - MOST_LINES + 1, 1001)]
    assert shown == [*beginning, f"… {left_out} lines", *end]


async def test_lines_wait_while_they_cannot_be_shown(tmp_path: Path) -> None:
    terminals, shown, is_free = Terminals(), list[str](), False
    async with asyncio.timeout(60):
        terminal_id = await _start(terminals, "echo a; read x; echo b", str(tmp_path))
        live = LiveOutput(terminals, terminal_id, shown.append, lambda: is_free)
        await terminals.wait("s", terminal_id)
        assert shown == []
        live.end()
        await terminals.aclose()

    assert shown == ["a", "b"]


def test_terminal_control_sequences_are_removed() -> None:
    assert end_of("\x1b[31mred\x1b[0m\x1b[2J \x1b]0;title\x07done\r50%\r100%\n") == (0, ["red done", "50%", "100%"])


def test_an_unknown_terminal_id_shows_nothing() -> None:
    shown: list[str] = []
    LiveOutput(Terminals(), "term_made_up", shown.append, lambda: True).end()

    assert shown == []
