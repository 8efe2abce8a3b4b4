"""Compare an output with a file in `golden/`; WRITE_GOLDEN=1 writes the file, to be read before it is committed."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).with_name("golden")


def assert_golden(name: str, text: str) -> None:
    """Check that a text is that of a golden file."""
    path = FOLDER / name
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), f"{path.name} differs; WRITE_GOLDEN=1 writes it again"
