"""The counted cost of an update, a request and a turn of the public API stays within a budget.

A count does not depend on how busy a machine is, so a regression shows here before any clock would show it.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TypeAlias

import pytest

from benchmarks.paths import PATHS, record
from benchmarks.peers import ROOT
from benchmarks.runs import ENVIRONMENT

Costs: TypeAlias = dict[str, dict[str, float]]
BUDGETS: dict[str, Costs] = tomllib.loads((Path(__file__).parent / "budget.toml").read_text("utf-8"))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes and event loops differ elsewhere")


def measured() -> Costs:
    """Count in a process of its own: what other tests left behind does not count."""
    env = {**ENVIRONMENT, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    command = [sys.executable, "-m", "benchmarks", "--costs"]
    printed = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=900)
    found: dict[str, Costs] = tomllib.loads(printed.stdout)
    (costs,) = found.values()
    return costs


def budget(version: tuple[int, int] = sys.version_info[:2]) -> Costs:
    known = sorted(tuple(map(int, name.split("."))) for name in BUDGETS)
    major, minor = max((each for each in known if each <= version), default=known[0])
    return BUDGETS[f"{major}.{minor}"]


def test_every_cost_is_within_its_budget() -> None:
    costs, allowed = measured(), budget()
    over = {
        f"{what}: {name}": f"{value:g}, at most {allowed[what][name]:g}"
        for what, cost in costs.items()
        for name, value in cost.items()
        if value > allowed[what][name]
    }

    assert over == {}
    assert set(costs) == set(allowed)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_a_count_is_the_same_every_time() -> None:
    first = measured()

    for _ in range(49):
        assert measured() == first


def test_a_version_without_a_budget_has_that_of_the_newest_before_it() -> None:
    assert budget((3, 99)) == BUDGETS[max(BUDGETS, key=lambda name: int(name.partition(".")[2]))]
    assert budget((3, 11)) == BUDGETS["3.11"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("wire", ["memory", "pipe"])
def test_a_path_shows_the_calls_of_both_sides(path: str, wire: str) -> None:
    calls = record(path, wire)

    assert {call.side for call in calls if call.name} == {"agent", "client"}
    assert any(call.is_resumed for call in calls)
    assert any(call.is_first for call in calls)
