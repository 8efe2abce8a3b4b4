"""Directories of trials lie below the directory of each test, so that tests see none of another."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from duologue.evals.run.scratch import PREFIX


@pytest.fixture(autouse=True)
def scratch_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory for temporary files."""
    root = tmp_path / "temporary"
    root.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(root))
    return root


@pytest.fixture
def leftovers(scratch_root: Path) -> Callable[[], list[str]]:
    """Return a function that lists the directories of trials that exist."""
    return lambda: sorted(each.name for each in scratch_root.glob(f"{PREFIX}*"))
