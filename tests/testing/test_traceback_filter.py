"""Tracebacks in the stderr of an agent, without the frames that its author cannot change."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import duologue
from duologue.traceback_filter import trim_tracebacks
from duologue.transports.process.command import LAUNCHER

PACKAGE = str(Path(duologue.__file__).parent)
ASYNCIO = str(Path(asyncio.__file__).parent)


def test_frames_of_the_library_and_of_asyncio_are_left_out_with_their_source() -> None:
    text = f"""\
ERROR duologue.runtime: handling 'session/prompt' failed
Traceback (most recent call last):
  File "{PACKAGE}/runtime/x.py", line 1, in _run
    result = await handler(params)
             ^^^^^^^^^^^^^^^^^^^^^
  File "{ASYNCIO}/tasks.py", line 2, in wait_for
    return await fut
  File "/elsewhere/lib/python3.13/site-packages/duologue/agent/turn.py", line 3, in say
  File "/elsewhere/lib/python3.13/site-packages/langchain_core/tools/base.py", line 7, in ainvoke
  File "/elsewhere/lib/python3.13/site-packages/pydantic_ai/run.py", line 8, in run
  File "/home/me/agent.py", line 4, in answer
    helper()
  File "{PACKAGE}/agent/turn.py", line 5, in tool
    raise ValueError
    [Previous line repeated 3 more times]
ValueError: no
next line
"""
    assert (
        trim_tracebacks(text)
        == """\
ERROR duologue.runtime: handling 'session/prompt' failed
Traceback (most recent call last):
  File "/home/me/agent.py", line 4, in answer
    helper()
ValueError: no
next line
"""
    )


def test_a_traceback_of_nothing_else_says_how_many_frames_are_missing() -> None:
    text = f'Traceback (most recent call last):\n  File "{PACKAGE}/x.py", line 1, in f\n    g()\nValueError: no'

    shown = trim_tracebacks(f"{text}\n{text}")

    part = "Traceback (most recent call last):\n  (1 frames of libraries left out)\nValueError: no"
    assert shown == f"{part}\n{part}"


def test_a_syntax_error_keeps_its_place(tmp_path: Path) -> None:
    path = tmp_path / "agent.py"
    path.write_text("x = (\n")
    ended = subprocess.run([sys.executable, *LAUNCHER, str(path)], capture_output=True, text=True, check=False)

    shown = trim_tracebacks(ended.stderr)

    assert "runpy" in ended.stderr
    assert "runpy" not in shown
    assert f'  File "{path}", line 1\n    x = (\n' in shown
    assert "SyntaxError: '(' was never closed" in shown


async def test_groups_of_exceptions_and_causes_are_trimmed_too() -> None:
    async def fail() -> None:
        raise ValueError("inner")

    with pytest.raises(KeyError) as raised:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
        except ExceptionGroup as error:
            raise KeyError("outer") from error
    text = "".join(traceback.format_exception(raised.value))

    shown = trim_tracebacks(text)

    assert "taskgroups.py" in text
    assert "taskgroups.py" not in shown
    assert "left out" not in shown
    assert [line for line in text.splitlines() if "Error" in line] == [
        line for line in shown.splitlines() if "Error" in line
    ]
    assert shown.count(", in fail") == 1


def test_other_lines_stay_as_they_are() -> None:
    text = "INFO mine: a line\n    indented\n\n  | File: none\n"

    assert trim_tracebacks(text) == text
