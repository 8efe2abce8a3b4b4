"""The table of rules: each has a name of its own, and the page about the dialects lists exactly these."""

from __future__ import annotations

import re
from pathlib import Path

from duologue.compat.rule_table import MODEL_RULES, RULES
from duologue.compat.rules import Rule

PAGE = Path(__file__).parents[2] / "docs" / "topics" / "seed-dialects.md"


def row_of(rule: Rule) -> str:
    """Return the row of a rule in the table of the page."""
    directions = {(True, False): "read", (False, True): "write", (True, True): "both"}
    direction = directions[rule.read is not None, rule.write is not None]
    return f"| `{rule.name}` | {', '.join(rule.sources)} | {rule.seed_form} | {rule.today} | {direction} |"


def test_no_two_rules_have_the_same_name() -> None:
    names = [rule.name for rule in (*RULES, *MODEL_RULES)]

    assert len(set(names)) == len(names)


def test_the_page_about_the_dialects_lists_every_rule_in_the_order_of_reading() -> None:
    _, _, listing = PAGE.read_text("utf-8").partition("## The rules")
    rows = re.findall(r"^\| `[a-z-]+` \|.*\|$", listing, re.MULTILINE)

    assert rows == [row_of(rule) for rule in (*RULES, *MODEL_RULES)]
