"""The example runs as the program it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "between_versions.py"


def test_a_client_of_version_1_talks_to_an_agent_of_version_2() -> None:
    ended = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "version 1: You said hello.\n", "")
