"""A root with a world around it that must stay as it was, and nothing left after any test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.sandbox import Sandbox
from tests.transports.conftest import nothing_left

__all__ = ["nothing_left"]


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """Directories `root` and `outside`; what is outside is the same when the test is over."""
    with Sandbox(tmp_path) as sandbox:
        yield sandbox
