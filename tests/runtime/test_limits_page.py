"""The documented limits are those of the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "topics" / "limits.md"
UNITS = {"": 1, " KiB": 1024, " MiB": 1024 * 1024, " s": 1}
ROWS = re.findall(
    r"^\| `(duologue[\w.]+)\.([A-Z_]+)` \| ([\d.]+)( KiB| MiB| s|) \|", PAGE.read_text("utf-8"), re.MULTILINE
)


def test_the_page_has_rows() -> None:
    assert len(ROWS) == PAGE.read_text("utf-8").count("| `duologue.") >= 34


@pytest.mark.parametrize(("module", "name", "number", "unit"), ROWS, ids=[name for _, name, _, _ in ROWS])
def test_each_limit_on_the_page_is_the_one_in_force(module: str, name: str, number: str, unit: str) -> None:
    assert getattr(importlib.import_module(module), name) == float(number) * UNITS[unit]
