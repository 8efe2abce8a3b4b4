"""The reference of the command line is what the program says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue.cli.parser import each_command
from duologue.transports.resume.protocol import GRACE_SECONDS
from duologue.transports.server.run import DRAIN_SECONDS
from scripts.cli_reference import FOLDER, pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_the_reference_is_up_to_date(page: Path) -> None:
    assert page.read_text("utf-8") == pages()[page], "run `python -m scripts.cli_reference`"


def test_every_command_has_a_page_and_no_page_is_left_over() -> None:
    assert {page.stem for page in (FOLDER / "cli").glob("*.md")} == set(each_command())


def test_the_timeouts_of_serve_are_those_of_the_library() -> None:
    _, serve = each_command()["serve"]
    timeouts = (serve.get_default("resume_timeout"), serve.get_default("drain_timeout"))

    assert timeouts == (GRACE_SECONDS, DRAIN_SECONDS)
