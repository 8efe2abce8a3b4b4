"""Agents that listen instead of talking on pipes: how their clients start them. Standard library only.

With `BENCH_WIRE=ws` or `BENCH_WIRE=http` in its environment every agent listens on loopback, prints its port, and every
client reaches it there by that wire.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

WIRE = os.environ.get("BENCH_WIRE")


@contextmanager
def server(command: Sequence[str], *, is_gentle: bool = False) -> Generator[tuple[int, str]]:
    """Start an agent that listens; return its process id and its URL.

    With `is_gentle` it is asked to end, so that it can end its own child, too.
    """
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            printed: str = process.stdout.readline().strip()
            port = printed if printed.isdigit() else str(urlsplit(printed).port)  # `duologue serve` prints a URL
            yield process.pid, f"{WIRE}://127.0.0.1:{port}/acp"
        finally:
            process.terminate() if is_gentle else process.kill()
