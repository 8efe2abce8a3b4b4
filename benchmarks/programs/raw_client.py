"""A client that only moves bytes: it compares what it gets with what the agent wrote, and times each request.

    raw_client.py UPDATES REQUESTS COPY -- COMMAND ...

The agent's command must write a copy of its output to the file COPY. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any


class RawClient:
    """Sends requests, and reads lines until one is the response."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin: IO[bytes] = process.stdin
        self._stdout: IO[bytes] = process.stdout
        self._next_id = 0
        self.received = hashlib.sha256()
        self.lines = 0

    def ask(self, method: str, **params: object) -> Any:
        """Send a request; return its result."""
        self._next_id += 1
        message = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        self._stdin.write(json.dumps(message).encode() + b"\n")
        self._stdin.flush()
        while line := self._stdout.readline():
            self.received.update(line)
            self.lines += 1
            if b'"result"' in line and json.loads(line).get("id") == self._next_id:
                return json.loads(line)["result"]
        raise SystemExit("the agent has ended")

    def end(self) -> None:
        """Close the agent's input, and read what is left."""
        self._stdin.close()
        while line := self._stdout.readline():
            self.received.update(line)


def main(updates: int, requests: int, copy: Path, command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1) as process:
        client = RawClient(process)
        client.ask("initialize", protocolVersion=1)
        session = client.ask("session/new", cwd="/tmp", mcpServers=[])["sessionId"]
        times: list[float] = []
        for _ in range(requests):
            began = time.perf_counter()
            client.ask("session/set_mode", sessionId=session, modeId="ask")
            times.append(time.perf_counter() - began)
        before, began = client.lines, time.perf_counter()
        client.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": f"/stream {updates}"}])
        rate = (client.lines - before) / (time.perf_counter() - began)
        client.end()
    is_identical = hashlib.sha256(copy.read_bytes()).digest() == client.received.digest()
    p99 = sorted(times)[len(times) * 99 // 100]
    print(json.dumps({"p99": p99, "rate": rate, "identical": float(is_identical)}))


if __name__ == "__main__":
    split = sys.argv.index("--")
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[split + 1 :])
