"""The example that reads a recording, as a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_example_shows_its_recording(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ended = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "read_recording.py")],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path, env={**os.environ, "PATH": path},
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    assert "user: /plan\n" in ended.stdout
    assert ended.stdout.endswith(" messages to_client\n")
