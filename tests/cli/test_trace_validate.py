"""`duologue trace validate`, as a program."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import duologue
from tests.trace.recorded_run import RecordedRun, whole_run


def test_a_good_recording_has_no_findings(tmp_path: Path) -> None:
    whole_run().save(tmp_path / "run.acp")
    ended = duologue(tmp_path, "trace", "validate", "run.acp")

    assert (ended.returncode, ended.stdout) == (0, "run.acp: no findings\n")


def test_an_error_is_named_with_message_path_and_hint(tmp_path: Path) -> None:
    whole_run().save(tmp_path / "good.acp")
    RecordedRun().opened().frame("to_client", id="\x1b[2J", result={}).save(tmp_path / "bad.acp")
    ended = duologue(tmp_path, "trace", "validate", "good.acp", "bad.acp")

    assert ended.returncode == 1
    assert ended.stdout.splitlines()[:3] == [
        "good.acp: no findings",
        "error: response-without-request (rule 7), message 5 at 0.400 s, by the agent",
        "    no request had the id '\\x1b[2J'  $.id",
    ]
    assert "see JSON-RPC 2.0: Response object\n" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "bad.acp: 1 error, 0 warnings"


def test_warnings_fail_only_with_strict_and_rules_can_be_selected(tmp_path: Path) -> None:
    RecordedRun().opened().prompt("never answered").save(tmp_path / "run.acp")

    assert duologue(tmp_path, "trace", "validate", "run.acp").returncode == 0
    assert duologue(tmp_path, "trace", "validate", "run.acp", "--strict").returncode == 1
    assert duologue(tmp_path, "trace", "validate", "run.acp", "--strict", "--rule", "schema").returncode == 0
    assert "no rule 'x'" in duologue(tmp_path, "trace", "validate", "run.acp", "--rule", "x").stderr


def test_lines_of_json_have_findings_and_a_summary(tmp_path: Path) -> None:
    RecordedRun().opened().frame("to_client", id=9, result={}).save(tmp_path / "run.acp")
    finding, summary = map(json.loads, duologue(tmp_path, "trace", "validate", "run.acp", "--json").stdout.splitlines())

    assert (finding["format"], finding["rule"], finding["frames"]) == (1, "response-without-request", [5])
    assert (finding["number"], finding["clause"]) == (7, "JSON-RPC 2.0: Response object")
    assert summary["summary"]["errors"] == 1
    assert {7, 23, 44} <= set(summary["summary"]["observed"])


def test_many_findings_of_one_rule_are_counted(tmp_path: Path) -> None:
    run = RecordedRun().opened()
    for number in range(50):
        run.frame("to_client", id=f"x{number}", result={})
    run.save(tmp_path / "run.acp")
    short, full = (duologue(tmp_path, "trace", "validate", "run.acp", *extra).stdout for extra in ([], ["--full"]))

    assert "… 40 more findings of response-without-request; --full prints them\n" in short
    assert full.count("error: ") == 50


def test_the_rules_are_listed(tmp_path: Path) -> None:
    listed = duologue(tmp_path, "trace", "validate", "--list-rules")
    lines = duologue(tmp_path, "trace", "validate", "--list-rules", "--json").stdout.splitlines()

    assert "171  one-prompt                  SHOULD  client" in listed.stdout
    assert "(prompt-turn: The Prompt Turn Lifecycle)\n" in listed.stdout
    described = {"format", "rule", "binds", "level", "text", "hint", "number", "clause", "versions"}
    assert described == set(json.loads(lines[0]))
    assert duologue(tmp_path, "trace", "validate").returncode == 2
