"""Write the page of the protocol's rules from the catalogue: `python -m scripts.rules_reference`.

`tests/trace/test_rule_catalogue.py` fails when the page does not match the catalogue.
"""

from __future__ import annotations

from pathlib import Path

from duologue.trace.rules.catalogue import CATALOGUE, RULE_SETS, CatalogueRule

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "rules.md"

HEADER = """\
# Rules of the protocol

<!-- This page is written by `python -m scripts.rules_reference`. -->

The rules that agents and clients follow, collected from the specification, the schemas and practice. Numbers and names
never change. [`duologue trace validate`](cli/trace.md) checks those that a recording can show (`--list-rules`).

- **Level**: MUST (a violation is an error), SHOULD (a warning), MAY (a permission).
- **Shown by**: *traffic*, any recording; *case*, only messages that provoke the violation; *nothing*, with the reason.
- **Clause**: a page of the specification and its heading, or a type of the schema. The pages of both versions have the
  same names, except prompt-turn, which is prompt-lifecycle in version 2.
"""

SHOWN_BY = {"passive": "traffic", "probe": "case", "both": "traffic, case", "none": "nothing"}
SIDES = {"agent": "agent", "client": "client", "both": "both"}


def page() -> str:
    """Return the text of the page."""
    rules = CATALOGUE.values()
    parts = [
        HEADER,
        _sets(),
        "## Overview\n",
        "| # | name | side | level | versions | shown by |\n|---|---|---|---|---|---|",
    ]
    parts += [_row(rule) for rule in rules]
    parts += ["\n## Each rule\n", *(_section(rule) for rule in rules)]
    return "\n".join(parts).rstrip() + "\n"


def _sets() -> str:
    listed = [f"- `{name}`: {_ranges(numbers)}" for name, numbers in RULE_SETS.items()]
    return "Sets of rules, one for each release of the schema; a set never changes:\n\n" + "\n".join(listed) + "\n"


def _ranges(numbers: tuple[int, ...]) -> str:
    """Return numbers in order as text, such as `1-3, 7`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ", ".join("-".join(map(str, each)) for each in ranges)


def _row(rule: CatalogueRule) -> str:
    level = rule.level + (" (unstable)" if rule.unstable else "")
    versions = ", ".join(map(str, rule.versions))
    anchor = f"[{rule.name}](#{rule.number}-{rule.name})"
    return f"| {rule.number} | {anchor} | {SIDES[rule.binds]} | {level} | {versions} | {SHOWN_BY[rule.check]} |"


def _section(rule: CatalogueRule) -> str:
    lines = [f"### {rule.number} {rule.name}\n", f"{rule.text}\n", f"- Clause: {rule.clause}", f"- Repair: {rule.hint}"]
    if rule.reason:
        lines.append(f"- Not shown by messages: {rule.reason}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
