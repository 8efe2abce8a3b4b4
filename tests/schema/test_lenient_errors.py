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
def test_a_path_reads_like_code_and_never_grows_with_the_keys_of_the_peer(path: Path, text: str) -> None:
    assert path_text(path) == text


def test_a_refusal_says_where_and_what() -> None:
    assert str(Rejected((None, "a"), "missing")) == "$.a: missing"
