"""Paths in error messages."""

from __future__ import annotations

import pytest

from duologue.schema.lenient_errors import Path, Rejected, path_text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (None, "$"),
        ((None, "prompt"), "$.prompt"),
        ((((None, "prompt"), 0), "text"), "$.prompt[0].text"),
        ((None, "a b"), "$['a b']"),
        ((None, "k" * 64), "$." + "k" * 64),
        ((None, "k" * 65), "$['" + "k" * 64 + "…']"),
    ],
)
def test_a_path_reads_like_code_and_long_keys_are_cut(path: Path, text: str) -> None:
    assert path_text(path) == text


def test_a_rejection_names_path_and_problem() -> None:
    assert str(Rejected((None, "a"), "missing")) == "$.a: missing"
