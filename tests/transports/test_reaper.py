"""The program that ends what an agent leaves behind changes nothing else for the agent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from duologue.transports import process

REAPER = Path(process.__file__).with_name("reaper.py")
STANDARD_SIGNALS = (1 << 31) - 1

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has child subreapers")


def reaped(tmp_path: Path, *command: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(REAPER), str(tmp_path / "report"), *command]


def _ignored(command: list[str]) -> int:
    """Return the ignored signals that a command shows, without those that the C library uses itself."""
    shown = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    return int(shown.split()[1], 16) & STANDARD_SIGNALS


def test_a_command_ignores_no_signal_that_it_would_not_ignore_by_itself(tmp_path: Path) -> None:
    shown = ["grep", "SigIgn", "/proc/self/status"]

    assert _ignored(reaped(tmp_path, *shown)) == _ignored(shown)


def test_the_reader_of_a_command_sees_that_it_closed_its_output(tmp_path: Path) -> None:
    closing = "import os, sys; print('last', flush=True); os.close(1); sys.stdin.read()"
    command = reaped(tmp_path, sys.executable, "-c", closing)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.read() == b"last\n"
        assert running.poll() is None
        running.communicate(timeout=60)
    assert running.returncode == 0


def test_a_command_that_is_left_without_input_sees_its_end(tmp_path: Path) -> None:
    command = reaped(tmp_path, "cat")
    ended = subprocess.run(command, input=b"all of it", capture_output=True, check=True, timeout=60)

    assert ended.stdout == b"all of it"
