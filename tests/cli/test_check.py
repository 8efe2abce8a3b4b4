"""`duologue check` on the command line: verdicts decide the exit code, and the report says what it could not judge."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.cli.program import duologue

SILENT = [sys.executable, "-c", "import sys\nfor line in sys.stdin: pass"]
"""An agent that reads everything and answers nothing."""


def test_the_built_in_agent_passes_and_stale_entries_of_a_baseline_are_named(tmp_path: Path) -> None:
    known = "format = 1\n[[known]]\nrule = 10\n[[known]]\nrule = 999\n[[known]]\nrule = 183\nversion = 2\n"
    (tmp_path / "known.toml").write_text(known, "utf-8")
    words = ["check", "agent", "--only", "10,183", "--protocol", "1", "--timeout", "50", "--baseline", "known.toml"]
    ended = duologue(tmp_path, *words)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "fixed since the baseline (rule/version): 10/1; remove them from it" in ended.stdout
    unjudged = "999 (there is no such rule), 183/2 (version 2 was not checked)"
    assert f"note: entries of the baseline that this check did not judge: {unjudged}; remove" in ended.stdout
    assert "no rule is broken" in ended.stdout


def test_an_agent_that_answers_nothing_is_asked_twice_and_the_report_says_so(tmp_path: Path) -> None:
    words = ["check", "agent", "--only", "26,27", "--protocol", "1", "--timeout", "0.3", "--strict"]
    ended = duologue(tmp_path, *words, "--json", "--", *SILENT)

    assert ended.returncode == 1, ended.stderr
    cases = json.loads(ended.stdout)["cases"]
    assert [(case["isRepeated"], case["hasTimedOut"]) for case in cases] == [(True, True)] * 2
    shown = duologue(tmp_path, *words, "--", *SILENT)
    named = "version-supported (version 1), version-unsupported (version 1)"
    assert f"the second run decides: {named}; 2 of them waited in vain again\n" in shown.stdout


def test_a_wrong_rule_version_or_baseline_is_a_wrong_command_line(tmp_path: Path) -> None:
    for words in (["--only", "999"], ["--protocol", "3"], ["--baseline", "missing.toml"], ["--jobs", "0"]):
        ended = duologue(tmp_path, "check", "agent", *words)
        assert ended.returncode == 2, (words, ended.stderr)
