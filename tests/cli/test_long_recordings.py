"""Recordings of many megabytes: read in bounded memory, with a bar on a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.program import SECONDS, environment, terminal

MEGABYTE = 1_000_000
LIMIT = 100 * MEGABYTE
"""Memory of the whole program, whatever the size of the recording: 1 GiB takes no more than 10 MB."""

PEAK = (
    "import runpy, sys\nfrom tests.memory import peak_bytes\nsys.argv[0] = 'duologue'\n"
    "try: runpy.run_module('duologue.cli.main', run_name='__main__')\n"
    "finally: print(peak_bytes(), file=sys.stderr)"
)


@pytest.fixture(scope="module")
def long_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of 10 MB: prompts, chunks, and a tool call whose result is long."""
    path = tmp_path_factory.mktemp("long") / "long.acp"
    with path.open("w") as file:

        def write(direction: str, message: Mapping[str, object]) -> int:
            entry = {"t": 0.001, "dir": direction, "frame": {"jsonrpc": "2.0", **message}}
            return file.write(json.dumps(entry, separators=(",", ":")) + "\n")

        file.write('{"duologue":"recording","version":2}\n')
        size = number = 0
        while size < 10 * MEGABYTE:
            number += 1
            prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": f"go {number}"}]}
            size += write("to_agent", {"id": number, "method": "session/prompt", "params": prompt})
            chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "some words " * 8}}
            update = {"method": "session/update", "params": {"sessionId": "s", "update": chunk}}
            size += sum(write("to_client", update) for _ in range(100))
            content = [{"type": "content", "content": {"type": "text", "text": "a line of a file\n" * 3000}}]
            call = {"sessionUpdate": "tool_call", "toolCallId": f"t{number}", "title": "Read", "content": content}
            size += write("to_client", {"method": "session/update", "params": {"sessionId": "s", "update": call}})
            size += write("to_client", {"id": number, "result": {"stopReason": "end_turn"}})
    return path


@pytest.mark.parametrize(
    "options",
    [["--stats"], ["--method", "session/prompt", "--kind", "request"], ["--text", "go 7"], ["--conversation"],
     ["--json", "--to", "agent"]],
)  # fmt: skip
def test_a_long_recording_is_read_in_bounded_memory(tmp_path: Path, long_recording: Path, options: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PEAK, "trace", "show", str(long_recording), *options],
        capture_output=True, timeout=SECONDS, check=True, env=environment(tmp_path),
    )  # fmt: skip

    assert ended.stdout
    assert int(ended.stderr.split()[-1]) < LIMIT
    assert b"\r" not in ended.stderr, "a bar belongs on a terminal"


def test_a_bar_shows_on_a_terminal_how_much_is_read_and_is_erased(tmp_path: Path) -> None:
    path = tmp_path / "slow.acp"
    line = '{"t":0,"dir":"to_client","frame":{"jsonrpc":"2.0","method":"_m","params":[0]}}\n'
    path.write_text('{"duologue":"recording","version":2}\n' + line * 600_000)
    with terminal(tmp_path, "trace", "show", str(path), "--text", "no such text") as screen:
        screen.until("% of ")
        screen.until(" MB/s")
        assert screen.wait() == 0

    assert screen.raw.rstrip().endswith(b"\r\x1b[K")
