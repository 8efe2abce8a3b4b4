from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.table import SIDES, Result, fault_ids, read_catalogue

ROOT = Path(__file__).parents[2]


def test_every_fault_a_test_claims_is_in_the_catalogue(request: pytest.FixtureRequest) -> None:
    known = {case.id for case in read_catalogue()}

    claimed = {(id, item.nodeid) for item in request.session.items for id in fault_ids(item)}

    assert [claim for claim in sorted(claimed) if claim[0] not in known] == []


def test_the_catalogue_names_every_case_once_with_its_owner() -> None:
    cases = read_catalogue()

    assert len({case.id for case in cases}) == len(cases) >= 327
    assert {case.side for case in cases} == set(SIDES)
    assert all(case.title and case.due for case in cases)


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([], "due: core"),
        (["passed", "passed"], "passed"),
        (["passed", "failed", "skipped"], "**failed**"),
        (["skipped"], "skipped (no Node)"),
        (["passed", "skipped"], "passed, in part skipped (no Node)"),
    ],
)
def test_the_status_of_a_case_is_never_better_than_its_worst_test(outcomes: list[str], status: str) -> None:
    result = Result(reasons={"no Node": None})
    result.outcomes.update((str(n), outcome) for n, outcome in enumerate(outcomes))  # type: ignore[misc]  # a parameter

    assert result.status("core") == status


CLAIMS = """
import pytest

@pytest.mark.fault("FRM-01", "FRM-02")
def test_shown(record_property):
    record_property("count", 40)

@pytest.mark.fault("FRM-02")
def test_broken():
    assert False

@pytest.mark.fault("FRM-03")
@pytest.mark.skip(reason="needs a day")
def test_skipped(): ...

@pytest.fixture
def untidy():
    yield
    raise OSError("left over")

@pytest.mark.fault("FRM-04")
def test_untidy(untidy): ...
"""


@pytest.mark.parametrize("arguments", [["-p", "no:xdist"], ["-n", "2"]], ids=["one process", "two processes"])
def test_the_table_shows_the_results_of_the_run(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = fault\n")
    (tmp_path / "test_claims.py").write_text(CLAIMS)

    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:langsmith_plugin", *arguments, "--fault-table=out/faults.md"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=60,
        check=False,
    )

    rows = [line.split(" | ") for line in (tmp_path / "out/faults.md").read_text("utf-8").splitlines()]
    shown = {row[0].strip("| "): row[3:] for row in rows if len(row) == 6}
    assert shown["FRM-01"] == ["passed", "1", "40 |"]
    assert shown["FRM-02"] == ["**failed**", "2", "40 |"]
    assert shown["FRM-03"] == ["skipped (needs a day)", "1", " |"]
    assert shown["FRM-04"] == ["**failed**", "1", " |"]
    assert shown["FRM-05"] == ["due: core", "", " |"]
