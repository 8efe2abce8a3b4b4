"""Errors of an agent's process have the last lines of its stderr as a note, which Python's tracebacks show."""

from __future__ import annotations

import asyncio
import sys
import traceback
from pathlib import Path

import pytest

from duologue import connect, sync
from duologue.client.target import LONGEST_NOTED, NOTED_LINES
from duologue.errors import InternalError, InvalidParams

FAILING = """
import sys, duologue

agent = duologue.Agent("failing")

@agent.on_prompt
async def answer(turn):
    if turn.text == "wrong":
        raise duologue.errors.InvalidParams("no such thing")
    if turn.text == "long":
        for number in range(1000):
            print(f"line {number} " + 2000 * "x", file=sys.stderr)
    print("the disk is \\x1b[2J full", file=sys.stderr)
    raise KeyError("secret")

agent.run()
"""
FAILS_FIRST = """
import json, sys

request = json.loads(sys.stdin.readline())
print("no key in the environment", file=sys.stderr, flush=True)
error = {"code": -32603, "message": "Internal error"}
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
sys.stdin.read()
"""


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error))


async def test_an_internal_error_shows_what_the_agent_wrote_to_stderr(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        connect([sys.executable, "-c", FAILING]) as agent,
        agent.new_session(tmp_path) as session,
    ):
        with pytest.raises(InternalError) as raised:
            await session.prompt("go")
        assert "the agent wrote to stderr:\nthe disk is \\x1b[2J full\n" in shown(raised.value)
        assert "KeyError: 'secret'" in shown(raised.value)
        assert "disk" not in str(raised.value)

        with pytest.raises(InvalidParams) as rejected:
            await session.prompt("wrong")
        assert "stderr" not in shown(rejected.value)


def test_the_note_is_bounded_and_there_without_an_event_loop_too(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as raised:
        sync.ask([sys.executable, "-c", FAILING], "long", cwd=tmp_path)
    (note,) = raised.value.__notes__
    assert len(note) < (NOTED_LINES + 1) * (LONGEST_NOTED + 2)
    assert "line 999 xxx" in note
    assert "KeyError: 'secret'" in note


def test_an_agent_that_fails_to_initialize_shows_its_stderr(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as raised:
        sync.ask([sys.executable, "-c", FAILS_FIRST], "go", cwd=tmp_path)
    assert shown(raised.value).endswith("the agent wrote to stderr:\nno key in the environment\n")
