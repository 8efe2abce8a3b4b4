"""The faulty agent on stdin and stdout, with faults that only a process can have: `python -m … [FAULT]`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

from duologue.transports.base import Transport
from tests.conformance import faulty_agent_methods, faulty_agent_turns
from tests.conformance.faulty_agent import HANDLERS, FaultyAgent

assert HANDLERS, (faulty_agent_methods, faulty_agent_turns)  # they register the methods


class Stdio(Transport):
    """Lines on stdin and stdout.

    Args:
        fault: What is wrong with it.
    """

    def __init__(self, fault: str) -> None:
        self._fault = fault

    @property
    def pending_bytes(self) -> int:
        return 0

    async def receive(self) -> list[bytes]:
        if self._fault == "a read is a message":
            data = await asyncio.to_thread(os.read, 0, 100_000_000)
            return [data] if data else []
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            if line.strip():
                return [line]
        if self._fault == "answers after the end of its stdin":
            self.send(b'{"jsonrpc":"2.0","id":999,"result":{}}')
        if self._fault == "survives the end of its stdin":
            await asyncio.Event().wait()
        return []

    def send(self, frame: bytes) -> None:
        if self._fault == "newlines inside messages" and b'"method"' in frame:
            frame = json.dumps(json.loads(frame), indent=1).encode()
        if self._fault == "prints to stdout":
            frame = b"debug: a message\n" + frame
        sys.stdout.buffer.write(frame + b"\n")
        sys.stdout.buffer.flush()

    async def drain(self) -> None:
        return

    async def aclose(self) -> None:
        return


def main(fault: str) -> None:
    """Serve until the end of stdin."""
    if fault == "leaves processes":
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    asyncio.run(FaultyAgent("").serve(Stdio(fault)))


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
