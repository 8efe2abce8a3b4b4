"""A finding is reproduced by a plain pipe: with the ids of the new run, and only if it shows again."""

from __future__ import annotations

import sys

import pytest

from duologue.conformance.wire_log import WireFrame, WireLog
from duologue.recording.format import FrameDirection
from scripts.finding_replay import Replay, is_reproduced, replay

AGENT = """
import json, os, sys
session = f"session-{os.getpid()}"
for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        continue
    if message["method"] == "session/new":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"sessionId": session}}), flush=True)
    elif message["params"].get("sessionId") != session:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602}}), flush=True)
    elif message["method"] == "exit":
        sys.exit(3)
    elif message["method"] == "ask":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": os.getcwd()}), flush=True)
"""
"""An agent that makes up the id of its session, ignores what is not JSON, and leaves unknown methods unanswered."""
OPENING: list[tuple[FrameDirection, str]] = [
    ("to_agent", '{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/tmp/duologue-check-abc"}}'),
    ("to_client", '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"session-of-the-case"}}'),
]


def wire(*lines: tuple[FrameDirection, str]) -> list[WireFrame]:
    """Return the messages of a case."""
    log = WireLog()
    connection = log.connect()
    for direction, text in [*OPENING, *lines]:
        connection.add(direction, text.encode())
    return log.frames


def request(method: str) -> tuple[FrameDirection, str]:
    text = f'{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{{"sessionId":"session-of-the-case"}}}}'
    return "to_agent", text


async def replayed(frames: list[WireFrame], silence: float = 0.5) -> Replay:
    return await replay([sys.executable, "-c", AGENT], {}, frames, silence=silence)


async def test_a_session_and_a_directory_of_the_case_become_those_of_the_new_run() -> None:
    frames = wire(request("ask"), ("to_client", '{"jsonrpc":"2.0","id":2,"result":"/"}'))
    made = await replayed(frames)

    assert [to for to, _ in made.lines] == ["agent", "client", "agent", "client"]
    assert "duologue-check" not in made.lines[0][1]
    assert "error" not in made.lines[3][1]
    assert is_reproduced(made, frames, [4])


@pytest.mark.parametrize("line", [request("unknown"), ("to_agent", "this is not JSON")])
async def test_silence_is_reproduced_by_silence(line: tuple[FrameDirection, str]) -> None:
    frames = wire(line)
    made = await replayed(frames)

    assert made.lines[-1][0] == "agent"
    assert is_reproduced(made, frames, [3])


async def test_an_agent_that_ends_is_reproduced_by_its_end() -> None:
    frames = wire(request("exit"))
    made = await replayed(frames, silence=60.0)  # its end is waited for, not the silence

    assert made.exit_code == 3
    assert is_reproduced(made, frames, [])


async def test_a_finding_that_does_not_show_again_is_not_reproduced() -> None:
    wrong = wire(request("ask"), ("to_client", '{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"x"}}'))
    silent = wire(request("ask"))

    assert not is_reproduced(await replayed(wrong), wrong, [4])
    answered = Replay([("agent", text) for _, text in [request("ask")]] + [("client", '{"id":2,"result":{}}')])
    assert not is_reproduced(answered, silent, [])
