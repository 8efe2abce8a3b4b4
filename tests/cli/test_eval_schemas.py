"""`duologue eval schemas`, as a program."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import duologue


def test_the_schema_of_a_format_is_printed(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "eval", "schemas", "suite")

    assert ended.returncode == 0
    assert "cases" in json.dumps(json.loads(ended.stdout))


def test_the_names_of_all_formats_are_listed(tmp_path: Path) -> None:
    assert "trajectory-step" in duologue(tmp_path, "eval", "schemas").stdout.splitlines()


def test_an_unknown_format_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "eval", "schemas", "suit")

    assert ended.returncode == 2
    assert "did you mean 'suite'" in ended.stderr
