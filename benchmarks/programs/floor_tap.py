"""The smallest tap: passes the bytes of a command on, and writes its lines to a file if one is given, secrets and all.

    floor_tap.py [-o FILE] -- COMMAND ...

What `duologue tap` costs above this is what it does more: checks of each frame, the search for secrets, a thread of its
own for a slow disk, gaps. Standard library only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

CHUNK = 64 * 1024


def main(file: str | None, command: list[str]) -> int:
    sink = None if file is None else os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to_agent = (0, process.stdin.fileno(), b"to_agent", sink)
        threading.Thread(target=_copy, args=to_agent, daemon=True).start()
        _copy(process.stdout.fileno(), 1, b"to_client", sink)
        os.close(1)
        return process.wait()


def _copy(source: int, target: int, direction: bytes, sink: int | None) -> None:
    began, rest = time.monotonic(), b""
    while data := os.read(source, CHUNK):
        _write(target, data)
        if sink is not None:
            lines, _, rest = (rest + data).rpartition(b"\n")
            start = b'{"t":%.6f,"dir":"%b","frame":' % (time.monotonic() - began, direction)
            _write(sink, b"".join((start, lines.replace(b"\n", b"}\n" + start), b"}\n")) if lines else b"")


def _write(target: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]


if __name__ == "__main__":
    split = sys.argv.index("--")
    sys.exit(main(sys.argv[2] if split > 1 else None, sys.argv[split + 1 :]))
