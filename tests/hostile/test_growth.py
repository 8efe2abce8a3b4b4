"""The promise: nothing in a client grows without a bound, whatever its agent sends or requests.

Each attack runs against a real client with default settings, in a process of its own whose peak memory is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.growth import ATTACKS, MB

pytestmark = pytest.mark.timeout(900)

MOST_BYTES = 256 * MB

FAULTS = {"parallel_reads": "PRC-21", "parallel_writes": "PRC-21", "questions": "PRC-22"}


def run(name: str, directory: Path) -> dict[str, Any]:
    program = [sys.executable, "-m", "tests.hostile.growth", "client", name, str(directory)]
    done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=890)
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.fault(FAULTS.get(name, "PRC-23"))) for name in ATTACKS],
)
def test_an_agent_that_floods_its_client_takes_no_more_than_256_mb(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    (tmp_path / "large.txt").write_bytes((b"x" * 99 + b"\n") * 160_000)
    outcome = run(name, tmp_path)
    record_property("count", f"{outcome['peak'] // MB} MB")

    assert outcome["outcome"] == ("cancelled" if name == "paused_reader" else "end_turn")
    assert outcome["peak"] < MOST_BYTES
