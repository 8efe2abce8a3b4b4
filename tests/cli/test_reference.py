"""The reference of the command line is what the program says of itself."""

from __future__ import annotations

from scripts.cli_reference import PAGE, reference


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == reference(), "run `python -m scripts.cli_reference`"
