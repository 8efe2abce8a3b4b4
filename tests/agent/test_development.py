"""The lines of prints, of blocking code and of lost coroutines, which an agent shows while it is developed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from duologue.agent.diagnostics.blocked_loop import location_of, report_blocked_loop
from duologue.agent.diagnostics.stderr_output import VARIABLE
from duologue.client.connect import connect

LAUNCHER = [sys.executable, "-P", "-m", "duologue.agent.hosting.launcher"]


def launched(tmp_path: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python file with the launcher."""
    (tmp_path / "program.py").write_text(text)
    command = [*LAUNCHER, *(arguments or ("program.py",))]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)


def test_a_print_goes_to_stderr_with_its_line(tmp_path: Path) -> None:
    text = """\
import contextlib, io, sys
print("one", 2, sep="-")
print("begun", end="")
print(" and ended")
print("to stderr", file=sys.stderr)
with contextlib.redirect_stdout(io.StringIO()) as caught:
    print("caught")
sys.exit(caught.getvalue())
"""
    ended = launched(tmp_path, text)

    assert ended.stdout == ""
    assert ended.stderr == (
        "print at program.py:2: one-2\nprint at program.py:3: begun and ended\nto stderr\ncaught\n\n"
    )


def test_a_coroutine_that_is_lost_elsewhere_is_named_with_the_line_of_the_call(tmp_path: Path) -> None:
    text = """\
import duologue
async def lost(): pass
async def answer(prompt):
    kept = [lost()]
    kept.clear()
    return "x"
duologue.run(answer)
"""
    (tmp_path / "program.py").write_text(text)
    errors = bytearray()

    async def main() -> None:
        command = [*LAUNCHER, str(tmp_path / "program.py")]
        async with connect(command, on_stderr=errors.extend, env={VARIABLE: "1"}) as agent:
            async with agent.new_session(tmp_path) as session:
                await session.ask("hello")

    asyncio.run(main())

    assert f"{tmp_path}/program.py:4: RuntimeWarning: coroutine 'lost' was never awaited" in errors.decode()


@pytest.mark.parametrize("argument", ["program.py", "program"])
def test_a_program_gets_its_name_arguments_and_directory(tmp_path: Path, argument: str) -> None:
    (tmp_path / "helper.py").write_text("NAME = 'helper'\n")
    text = "import sys, helper\nassert __name__ == '__main__'\nsys.exit(str([*sys.argv[1:], helper.NAME]))\n"

    assert launched(tmp_path, text, argument, "--flag", "x").stderr == "['--flag', 'x', 'helper']\n"


def test_a_module_of_the_name_of_the_library_does_not_hide_it(tmp_path: Path) -> None:
    (tmp_path / "asyncio.py").write_text("raise SystemExit('the wrong module')\n")

    assert "the wrong module" not in launched(tmp_path, "print('started')\n").stderr


def blocks() -> None:
    threading.Event().wait(0.2)


async def test_blocking_code_is_named_while_it_blocks(caplog: pytest.LogCaptureFixture) -> None:
    def reports() -> list[str]:
        return [message for message in caplog.messages if "in blocks: threading.Event().wait(0.2)" in message]

    with caplog.at_level("WARNING", logger="duologue.agent"), report_blocked_loop(seconds=0.01):
        end = time.monotonic() + 60
        while not reports() and time.monotonic() < end:
            blocks()
            await asyncio.sleep(0)

    assert "the event loop is blocked" in reports()[0]
    assert "test_development.py:" in reports()[0]


def test_a_loop_that_waits_is_not_called_blocked() -> None:
    loop, is_over = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(is_over.wait(),))
    thread.start()
    try:
        end = time.monotonic() + 60
        while True:
            frame = sys._current_frames().get(thread.ident or 0)
            if (frame is not None and frame.f_code.co_name == "select") or time.monotonic() > end:
                break
        where = location_of(frame)
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join()
        loop.close()

    assert where == ""
