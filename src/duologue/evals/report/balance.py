"""Coverage of the tags of a suite: how many cases each has, and which have too few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from duologue.evals.suite.case import Case

BALANCE_FORMAT = 1
UNTAGGED = "(none)"
"""Name of the category of cases that have none."""


class Category(Struct, frozen=True, kw_only=True):
    """One category of cases.

    Attributes:
        name: The tag, family or value of a key.
        count: Number of cases.
        percentage: Share of all cases in percent.
        graded: How many of them have graders.
    """

    name: str
    count: int
    percentage: float
    graded: int


class BalanceAnalysis(Struct, frozen=True, kw_only=True, rename="camel"):
    """The balance of a suite; `eval balance --json` prints it.

    Attributes:
        format: Version of the format.
        key: What the cases are grouped by.
        total_cases: Number of cases.
        categories: The categories, the largest first.
        underrepresented: Names of those with fewer cases than the threshold.
        suggestions: What to do about them.
    """

    format: int = BALANCE_FORMAT
    key: str
    total_cases: int
    categories: list[Category]
    underrepresented: list[str]
    suggestions: list[str]


def analyze_balance(cases: Iterable[Case], *, key: str = "tags", threshold: float = 0.5) -> BalanceAnalysis:
    """Return how the cases of a suite are spread.

    Args:
        cases: The cases.
        key: `tags`, `family`, or a key of their metadata, such as `category`.
        threshold: Share of an even number of cases below which a category has too few.
    """
    found = list(cases)
    names = _names(key)
    counts: Counter[str] = Counter()
    graded: Counter[str] = Counter()
    for case in found:
        for name in dict.fromkeys(names(case) or [UNTAGGED]):
            counts[name] += 1
            graded[name] += bool(case.graders)
    even = sum(counts.values()) / len(counts) if counts else 0.0
    few = [name for name, count in counts.items() if count < even * threshold and name != UNTAGGED]
    needed = [f"add at least {_needed(counts[name], even * threshold)} of {name!r}" for name in few]
    if counts[UNTAGGED]:
        needed.append(f"{counts[UNTAGGED]} cases have no {key}")
    if ungraded := sum(not case.graders for case in found):
        needed.append(f"{ungraded} cases have no graders")
    categories = [
        Category(name=name, count=count, percentage=round(100 * count / len(found), 1), graded=graded[name])
        for name, count in counts.most_common()
    ]
    return BalanceAnalysis(
        key=key, total_cases=len(found), categories=categories, underrepresented=few, suggestions=needed
    )


def _names(key: str) -> Callable[[Case], list[str]]:
    if key == "tags":
        return lambda case: case.tags
    if key == "family":
        return lambda case: [case.family] if case.family else []
    return lambda case: [str(case.metadata[key])] if key in case.metadata else []


def _needed(count: int, least: float) -> int:
    return int(-(-least // 1)) - count
