"""Every test that the pages about the seeds name exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "project").glob("seed-*.md"))


@cache
def names_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_there_is_a_page_for_each_seed() -> None:
    assert [page.stem for page in PAGES] == [f"seed-00{number}" for number in range(5)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text("utf-8"))
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).is_file() or (test and test not in names_in(ROOT / file))
    ]

    assert missing == []
    assert len(named) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_line_of_a_page_about_an_item_names_a_test(page: Path) -> None:
    rows = re.findall(
        r"^\| (?!item|seed 004)(.+) \|$", page.read_text("utf-8").partition("## Its classes")[0], re.MULTILINE
    )

    assert [row for row in rows if "`tests/" not in row and not row.startswith("---")] == []
