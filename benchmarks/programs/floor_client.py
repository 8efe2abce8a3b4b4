"""The least a client on asyncio and msgspec can do: a future waits for each response. No checks, bounds or order."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

import msgspec

from benchmarks.programs.floor_lines import Lines
from benchmarks.script import Seen, Side, arguments, play, run


class Params(msgspec.Struct, rename="camel", gc=False):
    session_id: str
    mode_id: str


class Request(msgspec.Struct, gc=False):
    jsonrpc: str
    id: int
    method: str
    params: Params


class Response(msgspec.Struct, gc=False):
    id: int
    result: dict[str, Any]


decode = msgspec.json.Decoder(Response).decode


class Client(Lines):
    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last_id = 0

    def received(self, line: bytes) -> None:
        response = decode(line)
        self._waiting.pop(response.id).set_result(response.result)

    async def set_mode(self, session_id: str) -> dict[str, Any]:
        self._last_id += 1
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._waiting[self._last_id] = future
        self.send(Request("2.0", self._last_id, "session/set_mode", Params(session_id, "ask")))
        return await future


async def main() -> None:
    _, _, command = arguments()
    started = time.perf_counter()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: ASYNC220  # no other task runs that it could block
    assert child.stdin is not None
    assert child.stdout is not None
    client = Client()
    await client.open(child.stdout, child.stdin)

    async def initialize() -> None:
        await client.set_mode("session-1")

    async def new_session() -> str:
        await client.set_mode("session-1")
        return "session-1"

    async def prompt(session: str, text: str) -> None:
        sys.exit("the floor has no prompts; run it only with measures of requests")

    await play(Side(initialize, new_session, client.set_mode, prompt, child.pid, started, Seen()))
    client.close()
    await asyncio.to_thread(child.wait, 10)


run(main())
