"""The promise: text without an end costs the command line neither time nor memory that grows with more than its length.

The bounds are far from both sides: what grows with the square would take minutes here, what does not takes seconds.
"""

from __future__ import annotations

import io
import re
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from duologue.cli.console.agent_terminals import MOST_COMMANDS, TAIL_BYTES, AgentTerminals
from duologue.cli.console.live_output import MOST_COLUMNS, LiveOutput, end_of
from duologue.cli.console.markdown import MarkdownWriter
from duologue.cli.console.renderer import ConsoleOutput
from duologue.cli.console.shown_text import MOST_ENTRIES
from duologue.client.services.terminals import Terminals
from duologue.events import Terminal, TerminalOutput, Text, ToolCall
from tests.cli.program import terminal
from tests.memory import peak_bytes

AGENT = [sys.executable, str(Path(__file__).with_name("flooding_agent.py"))]
MEGABYTE = 1024 * 1024
PIECE = 64 * 1024


@pytest.fixture
def peak() -> Callable[[], int]:
    """Bytes that were in use at once since the test began."""
    tracemalloc.start()
    return lambda: tracemalloc.get_traced_memory()[1]


@pytest.fixture(autouse=True)
def _stop_tracing() -> object:
    yield
    tracemalloc.stop()


@pytest.mark.timeout(60)
@pytest.mark.fault("CLI-04")
def test_an_endless_line_is_cut_and_marked(peak: Callable[[], int]) -> None:
    commands, shown = AgentTerminals(), list[str]()
    live = LiveOutput(commands, "t", shown.append, lambda: True)
    pieces = 200 * MEGABYTE // PIECE
    for _ in range(pieces):
        commands.show(TerminalOutput(terminal_id="t", data=b"x" * PIECE))
    live.end()

    assert shown == ["x" * MOST_COLUMNS + f"… ({pieces * PIECE:,} characters)"]
    assert peak() < 2 * MEGABYTE


@pytest.mark.timeout(60)
@pytest.mark.fault("CLI-04")
def test_lines_waiting_to_be_shown_are_bounded(peak: Callable[[], int]) -> None:
    commands, shown = AgentTerminals(), list[str]()
    live = LiveOutput(commands, "t", shown.append, lambda: False)
    for _ in range(100):
        commands.show(TerminalOutput(terminal_id="t", data=b"line\r\n" * 1_000))
    live.end()

    assert len(shown) == 121
    assert shown[100] == "… 99880 lines"
    assert peak() < MEGABYTE


@pytest.mark.fault("CLI-04")
def test_terminals_reported_by_an_agent_are_bounded(peak: Callable[[], int]) -> None:
    commands = AgentTerminals()
    for number in range(2 * MOST_COMMANDS):
        commands.show(TerminalOutput(terminal_id=str(number), data=b"x" * 2 * TAIL_BYTES))

    assert commands.shown("0") is None
    last = commands.shown(str(2 * MOST_COMMANDS - 1))
    assert last is not None
    assert (len(last.output), last.truncated) == (TAIL_BYTES, True)
    assert peak() < 3 * MOST_COMMANDS * TAIL_BYTES


def test_output_continues_after_its_beginning_was_dropped() -> None:
    commands, shown = AgentTerminals(), list[str]()
    live = LiveOutput(commands, "t", shown.append, lambda: True)
    output = b"".join(b"%d\n" % number for number in range(20_000))
    commands.show(TerminalOutput(terminal_id="t", data=output))
    terminal_output = commands.shown("t")
    commands.show(Terminal(terminal_id="t", output=output))
    commands.show(Terminal(terminal_id="t", output=output[-TAIL_BYTES * 3 // 2 :] + b"more\n"))
    live.end()

    assert terminal_output is not None
    assert terminal_output.truncated
    assert terminal_output.output == output[-TAIL_BYTES:].decode()
    assert shown[-3:] == ["19998", "19999", "more"]
    assert "…" not in shown


@pytest.mark.timeout(60)
@pytest.mark.fault("CLI-04")
def test_only_the_end_of_long_output_is_kept(peak: Callable[[], int]) -> None:
    output = "line\n" * 100_000
    before, lines = end_of(output)

    assert (before, lines) == (99_980, ["line"] * 20)
    assert peak() < 3 * len(output)


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.timeout(60)
@pytest.mark.fault("CLI-04")
def test_blank_lines_in_a_fence_take_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = _Screen()
    words = MarkdownWriter(out)
    words.write("```\n")
    for _ in range(2_000):
        words.write("\n" * 100)
    words.write("code\n```\n\nafter\n\n")
    words.pause()

    assert "code" in out.getvalue()
    assert re.search("after *\n", out.getvalue())


def test_code_that_is_rendered_in_parts_stays_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    out = _Screen()
    words = MarkdownWriter(out)
    for piece in ("```python\n", *("**not bold**\n" for _ in range(4_000)), "```\n\n**bold**\n\n"):
        words.write(piece)
    words.pause()

    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", out.getvalue())
    assert plain.count("**not bold**") >= 4_000
    assert plain.rstrip().endswith("\nbold")


@pytest.mark.timeout(60)
@pytest.mark.fault("CLI-04")
def test_the_console_stores_a_bounded_part_of_an_endless_turn(peak: Callable[[], int], tmp_path: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = ConsoleOutput(out, err, tmp_path, Terminals())
    for number in range(4 * MOST_ENTRIES):
        screen.show(Text(text="", message_id=f"{number}"))
        screen.show(ToolCall(tool_call_id=f"{number}", title="t" * 1000))
    for _ in range(1_000):
        screen.show(Text(text="x" * MEGABYTE, message_id="long"))
        err.seek(0)
        out.seek(0)

    assert peak() < 16 * MEGABYTE


@pytest.mark.timeout(120)
@pytest.mark.fault("CLI-04")
@pytest.mark.parametrize("kind", ["line", "fence", "once", "diff"])
def test_a_flood_on_a_terminal_stays_within_time_and_memory(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "run", "hi", "--", *AGENT, kind) as console:
        console.until("that was all", seconds=100)
        memory = peak_bytes(console.process.pid)

        assert console.wait() == 0
    assert memory < 256 * MEGABYTE


@pytest.mark.timeout(120)
@pytest.mark.fault("CLI-04")
def test_a_command_with_one_endless_line_stays_within_time_and_memory(tmp_path: Path) -> None:
    script = "head -c 100000000 /dev/zero | tr '\\0' x"
    with terminal(tmp_path, "run", f'/run sh -c "{script}"', "--yes") as console:
        console.until("… (100,000,000 characters)", seconds=100)
        memory = peak_bytes(console.process.pid)

        assert console.wait() == 0
    assert memory < 256 * MEGABYTE
