"""Runs as JUnit XML, CSV and JSON lines: complete, and safe whatever an agent wrote."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from duologue.evals.report.exports.junit import to_junit
from duologue.evals.report.exports.trial_table import to_csv, to_json_lines
from duologue.evals.report.run_summary import RunSummary, read_run
from duologue.markup import csv_cell
from tests.evals.golden_files import assert_golden
from tests.evals.hostile_texts import HOSTILE, HUGE
from tests.evals.run_builder import build_run

# What the schema junit-10.xsd of the xUnit plugin, which pytest names, allows: attributes, and children.
JUNIT = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "time", "skipped", "timestamp"}, {"testcase"}),
    "testcase": ({"name", "time", "classname"}, {"skipped", "failure"}),
    "failure": ({"type", "message"}, set[str]()),
    "skipped": ({"type", "message"}, set[str]()),
}
LETTERS = {"one": {"a": "PFC", "b": "PV-"}, "two": {"a": "PPP", "b": "FFF"}}


def run_of(folder: Path, text: str = "hello") -> RunSummary:
    """Return a run with passed, failed, missing and quarantined trials."""
    return read_run(build_run(folder, LETTERS, text=text, fields={"b": {"quarantine": text, "tags": [text]}}))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSummary:
    """Return a run with a path that is the same each time."""
    monkeypatch.chdir(tmp_path)
    return run_of(Path())


def test_a_run_as_junit(run: RunSummary) -> None:
    assert_golden("junit.xml", to_junit([run]))


def test_junit_has_only_what_its_schema_allows(tmp_path: Path) -> None:
    for text in ("hello", HOSTILE, HUGE):
        root = ET.fromstring(to_junit([run_of(tmp_path / str(len(text)), text)]))
        for element in root.iter():
            attributes, children = JUNIT[element.tag]
            assert set(element.attrib) <= attributes
            assert {child.tag for child in element} <= children
        assert root.attrib["tests"] == "12"
        assert root.attrib["failures"] == "1"
        assert [suite.attrib["skipped"] for suite in root] == ["3", "3"]


def test_missing_trials_are_skipped_and_failures_in_quarantine_too(run: RunSummary) -> None:
    root = ET.fromstring(to_junit([run]))
    messages = [element.attrib["message"] for element in root.iter("skipped")]

    assert "missing: one, a, trial 3: agent_crashed (ConnectionLost): hello" in messages
    assert messages.count("quarantine: hello; score 0.000: text 1") == 3


def test_a_run_as_csv(run: RunSummary) -> None:
    assert_golden("trials.csv", to_csv([run]).replace("\r\n", "\n"))


def test_no_cell_of_a_csv_file_is_a_formula(tmp_path: Path) -> None:
    for start in ("=1+1", "+1", "-1", "@x", "\t=1", "\r=1"):
        run = run_of(tmp_path / str(ord(start[0])), start)
        rows = list(csv.reader(io.StringIO(to_csv([run]), newline="")))
        cells = [cell for row in rows for cell in row]
        assert len({len(row) for row in rows}) == 1
        assert any(cell == f"'{start}" for cell in cells)
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)


def test_numbers_of_a_csv_file_stay_numbers() -> None:
    assert [csv_cell(value) for value in (-1.5, 3, None, True, "-1.5")] == ["-1.5", "3", "", "True", "'-1.5"]


def test_json_lines_have_a_version_and_every_trial(run: RunSummary) -> None:
    rows = [json.loads(line) for line in to_json_lines([run]).splitlines()]

    assert len(rows) == 12
    assert {row["format"] for row in rows} == {1}
    assert [row["missing"] for row in rows[:6]] == [None, None, "agent_crashed", None, "verifier_failed", "not_run"]
