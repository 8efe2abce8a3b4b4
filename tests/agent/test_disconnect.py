"""A client that leaves in the middle of a turn: an ordinary event, and no tracebacks on the agent's stderr."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

AGENT = """
import asyncio, sys
from duologue import Agent, Turn

agent = Agent("chatty")

@agent.on_prompt
async def answer(turn: Turn) -> None:
    size, pause, way = turn.text.split()
    async def talk():
        while True:
            await turn.say("x" * int(size))
            await asyncio.sleep(float(pause))
    if way == "group":
        async with asyncio.TaskGroup() as group:
            group.create_task(talk())
            group.create_task(talk())
    elif way == "ask":
        await turn.say("now")
        async with turn.tool("Edit", kind="edit") as tool:
            await tool.request_permission()
            await talk()
    else:
        await talk()

agent.cli()
"""


@pytest.mark.fault("LIF-20")
@pytest.mark.parametrize("leaves", ["stdout", "stdin", "both"])
@pytest.mark.parametrize("prompt", ["10 0 plain", "10 0.001 group", "100000 0 plain", "10 0 ask"])
async def test_a_client_that_leaves_in_the_middle_of_a_turn_leaves_one_line_at_most(
    tmp_path: Path, prompt: str, leaves: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", AGENT, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=1 << 24, cwd=tmp_path
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            beginning: list[tuple[int, str, dict[str, Any]]] = [
                (0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
                (1, "session/new", {"cwd": str(tmp_path), "mcpServers": []}),
            ]
            answer: dict[str, Any] = {}
            for id, method, params in beginning:
                process.stdin.write(_request(id, method, params))
                while (answer := json.loads(await process.stdout.readline())).get("id") != id:
                    pass
            session = answer["result"]["sessionId"]
            asked: dict[str, Any] = {"sessionId": session, "prompt": [{"type": "text", "text": prompt}]}
            process.stdin.write(_request(2, "session/prompt", asked))
            while b"agent_message_chunk" not in await process.stdout.readline():
                pass
            if leaves != "stdin":
                process.stdout._transport.close()  # type: ignore[attr-defined] # no other way to close it
            if leaves == "stdout":
                # What is said from here on finds no reader; an answer to anything else would not either.
                process.stdin.write(_request(3, "session/list", {}))
            process.stdin.close()
            reading = asyncio.create_task(process.stdout.read() if leaves == "stdin" else asyncio.sleep(0))
            stderr = (await process.stderr.read()).decode()
            await process.wait()
            await reading
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    assert "Traceback" not in stderr
    assert stderr.count("\n") <= 1, stderr


def _request(id: int, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"
