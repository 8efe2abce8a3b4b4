"""The catalogue of rules: complete, consistent, and with sets that never change."""

from __future__ import annotations

import hashlib
import re
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from duologue.trace.rules.catalogue import CATALOGUE, RULE_SETS, rule_by_name
from scripts.rules_reference import PAGE, page

DIGESTS = {"1.15": "22ee6e7f71d290a023f0154e4e8cf5ba09f00b9b93386749940862ef54a3cd3c"}
"""SHA-256 of the numbers of each set, joined by commas."""


def test_the_numbers_have_no_gaps_and_the_names_are_unique() -> None:
    assert list(CATALOGUE) == list(range(1, len(CATALOGUE) + 1))
    assert len({rule.name for rule in CATALOGUE.values()}) == len(CATALOGUE) >= 190


@pytest.mark.parametrize("number", CATALOGUE)
def test_a_rule_says_what_it_is_in_one_sentence_each(number: int) -> None:
    rule = CATALOGUE[number]

    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert rule.text.endswith(".")
    assert ". " not in rule.text
    assert rule.hint
    assert not rule.hint.endswith(".")
    assert rule.clause
    assert rule.versions in ((1,), (2,), (1, 2))
    assert bool(rule.reason) == (rule.check == "none")
    assert rule_by_name(rule.name) is rule


@pytest.mark.parametrize("name", RULE_SETS)
def test_a_set_of_rules_never_changes(name: str) -> None:
    numbers = RULE_SETS[name]

    assert sorted(set(numbers)) == list(numbers)
    assert set(numbers) <= set(CATALOGUE)
    assert hashlib.sha256(",".join(map(str, numbers)).encode()).hexdigest() == DIGESTS[name]


def test_the_page_of_the_rules_matches_the_catalogue() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `python -m scripts.rules_reference`"


def test_an_unknown_name_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="there is no rule 'sschema'"):
        rule_by_name("sschema")


def test_the_catalogue_is_in_the_wheel(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    (wheel,) = WheelBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"])

    assert "duologue/trace/rules/catalogue.toml" in zipfile.ZipFile(wheel).namelist()
