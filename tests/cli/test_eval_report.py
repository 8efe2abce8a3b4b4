"""`duologue eval report`, as a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import duologue, terminal
from tests.evals.golden_files import assert_golden
from tests.evals.run_builder import build_run

TRIALS = {
    "one": {"fix": "PPF", "explain": "PPP", "rename": "FFF", "move": "PCP", "slow": "-VP"},
    "two": {"fix": "PFF", "explain": "PPP", "rename": "FFF", "move": "PPP", "slow": "PFN"},
}
HOSTILE = "<script>alert(1)</script>\x1b[31m|`*_\u202e\x00 =1+1\r\n" + "x" * 5000


@pytest.fixture
def run(tmp_path: Path) -> str:
    """Return the path of a run, relative to the directory of the test."""
    build_run(tmp_path, TRIALS, costs={"one": 0.02}, fields={"slow": {"quarantine": "waits for a service"}})
    return "run"


def test_a_report_is_a_table_with_what_is_missing(tmp_path: Path, run: str) -> None:
    ended = duologue(tmp_path, "eval", "report", run)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert_golden("report.txt", ended.stdout)


def test_a_report_as_markdown(tmp_path: Path, run: str) -> None:
    ended = duologue(tmp_path, "eval", "report", "--markdown", run)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert_golden("report.md", ended.stdout)


def test_a_report_as_json_has_its_version_and_every_trial(tmp_path: Path, run: str) -> None:
    report = json.loads(duologue(tmp_path, "eval", "report", "--json", run).stdout)

    assert report["format"] == 1
    assert [agent["label"] for agent in report["agents"]] == ["one", "two"]
    assert sum(len(case["trials"]) for agent in report["agents"] for case in agent["cases"]) == 30
    assert report["agents"][0]["missing"] == {"agent_crashed": 1, "not_run": 1, "verifier_failed": 1}


def test_texts_of_agents_cannot_control_the_terminal_or_the_table(tmp_path: Path) -> None:
    build_run(tmp_path, {HOSTILE[:60]: {"fix": "PC"}, "two": {"fix": "FV"}}, text=HOSTILE)
    with terminal(tmp_path, "eval", "report", "run") as shown:
        assert shown.wait() == 0
    plain = duologue(tmp_path, "eval", "report", "run").stdout
    markdown = duologue(tmp_path, "eval", "report", "--markdown", "run").stdout

    assert b"\x1b[31m|" not in shown.raw
    assert "\u202e" not in shown.text + plain + markdown
    assert max(map(len, plain.splitlines())) < 400
    assert "<script>" not in markdown
    assert "\\<script\\>" in markdown


def test_a_terminal_without_unicode_has_bars_in_ascii(tmp_path: Path, run: str) -> None:
    table = duologue(tmp_path, "eval", "report", run, LC_ALL="C").stdout

    assert "####.. " in table


def test_wrong_arguments_are_refused_with_a_sentence(tmp_path: Path, run: str) -> None:
    missing = duologue(tmp_path, "eval", "report", "nothing")
    metric = duologue(tmp_path, "eval", "report", run, "--metric", "speed")
    level = duologue(tmp_path, "eval", "report", run, "--level", "2")

    assert "is not the directory of a run" in missing.stderr
    assert "unknown metric 'speed'" in metric.stderr
    assert "is no level" in level.stderr
    assert {missing.returncode, metric.returncode, level.returncode} <= {1, 2}
