"""The example for both versions prints what its page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "both_versions.py"


def test_the_example_prints_the_same_in_both_versions() -> None:
    output = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=60, check=True).stdout
    older, newer = output.splitlines()

    assert older == "version 1: Let me see. [echo hello] [Think it over] It says hello.(end_turn)"
    assert newer.replace("[a terminal of the agent] ", "") == older.replace("version 1", "version 2")
    assert "[a terminal of the agent] " in newer
