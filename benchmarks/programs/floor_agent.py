"""The least an agent on asyncio and msgspec can do: a task answers each request. No checks, no bounds, no order."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec

from benchmarks.programs.floor_lines import Lines
from benchmarks.script import run


class Params(msgspec.Struct, rename="camel", gc=False):
    session_id: str = ""
    mode_id: str = ""


class Request(msgspec.Struct, gc=False):
    id: int
    method: str
    params: Params


class Response(msgspec.Struct, gc=False):
    jsonrpc: str
    id: int
    result: dict[str, Any]


decode = msgspec.json.Decoder(Request).decode


class Agent(Lines):
    def __init__(self) -> None:
        super().__init__()
        self._tasks: set[asyncio.Task[None]] = set()

    def received(self, line: bytes) -> None:
        task = self._loop.create_task(self._answer(decode(line)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request) -> None:
        self.send(Response("2.0", request.id, await set_mode(request.params)))


async def set_mode(params: Params) -> dict[str, Any]:
    return {}


async def main() -> None:
    agent = Agent()
    await agent.open(sys.stdin.buffer, sys.stdout.buffer)
    await agent.over.wait()


run(main())
