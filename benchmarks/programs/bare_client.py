"""The least a client on asyncio can do: send the bytes of a request and wait until as many are returned."""

from __future__ import annotations

import asyncio
import subprocess
import time

from benchmarks.script import Seen, Side, arguments, play, run
from benchmarks.wire import compact

REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "session/set_mode"}
FRAME = compact({**REQUEST, "params": {"sessionId": "session-1", "modeId": "ask"}}) + b"\n"


class Answers(asyncio.Protocol):
    def __init__(self) -> None:
        self.arrived = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.arrived.set_result(None)


async def main() -> None:
    _, _, command = arguments()
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: ASYNC220  # no other task runs that it could block
    output, _ = await loop.connect_write_pipe(asyncio.Protocol, child.stdin)
    _, answers = await loop.connect_read_pipe(Answers, child.stdout)

    async def ask(session: str = "") -> str:
        answers.arrived = loop.create_future()
        output.write(FRAME)
        await answers.arrived
        return session

    async def prompt(session: str, text: str) -> None:
        raise NotImplementedError("this agent only echoes")

    await play(Side(ask, ask, ask, prompt, child.pid, started, Seen()))
    output.close()
    await asyncio.to_thread(child.wait, 10)


run(main())
