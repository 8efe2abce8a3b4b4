"""Patterns of the user: what they mask, and that none can stop the program."""

from __future__ import annotations

import random
import re

import pytest

from duologue.recording.patterns import PART, UserPattern


@pytest.mark.parametrize(
    "pattern",
    [r"(a+)+$", r"(\d+-?)*x", r"(?:ab*)+", r"(?:a|b+)*x", r"(a*?)+x", r"(?=(a+)+)b", r"(?:x(?:y+))*z",
     r"(b)(?(1)(?:a+)+|d)"],
)  # fmt: skip
def test_a_repetition_of_a_repetition_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="repeats a repetition"):
        UserPattern(pattern)


@pytest.mark.parametrize(("pattern", "why"), [("(", "not a regular expression"), ("x*", "matches an empty text")])
def test_a_text_that_cannot_be_a_pattern_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        UserPattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "masked"),
    [
        (r"emp-\d+", "emp-17, emp-", "*, emp-"),
        (r"(?:\d{1,3}\.){3}\d{1,3}", "at 10.0.0.17!", "at *!"),
        (r"(?:\w++\.)++corp", "a.b.corp", "*"),
        (r"(?>a+)+b", "aab", "*"),
        (r"(?i)emp-\d+", "EMP-1", "*"),
        (r"x|y", "xyz", "**z"),
        (r"(?:ab?){2,}", "aab", "*"),
    ],
)
def test_matches_are_masked(pattern: str, text: str, masked: str) -> None:
    assert UserPattern(pattern).mask(text, "*") == masked


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("pattern", [r"a{3}b+", r"(?<=-)a+", r"a.b", r"ab"])
def test_a_long_text_is_masked_as_a_short_one(pattern: str, seed: int) -> None:
    chance = random.Random(seed)
    text = "".join(chance.choice("ab \n-") for _ in range(chance.randrange(PART // 2, 4 * PART)))

    assert UserPattern(pattern).mask(text, "*") == re.sub(pattern, "*", text)


def test_a_match_that_is_longer_than_a_part_is_masked_whole() -> None:
    text = "y " * PART + "KEY-" + "k" * 8 * PART + " and " * PART + "KEY-1"

    assert UserPattern(r"KEY-\w+").mask(text, "*") == "y " * PART + "*" + " and " * PART + "*"


@pytest.mark.timeout(60)
def test_a_text_that_is_slow_to_search_is_searched_in_time() -> None:
    slow, other = "x" * 200_000, "x" * 50_000 + "@corp.example"
    pattern = UserPattern(r"[\w.]+@corp\.example")

    assert pattern.mask(slow, "*") == slow, "it has no @, and so is not searched"
    assert pattern.mask(other, "*").endswith("*")
