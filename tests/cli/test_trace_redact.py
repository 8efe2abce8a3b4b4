"""`duologue trace redact`, as a program."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import duologue
from tests.trace.recorded_run import RecordedRun


def test_patterns_values_and_the_configuration_say_what_is_removed(tmp_path: Path) -> None:
    RecordedRun().prompt("emp-1 knows open sesame of proj-2, not Alice").save(tmp_path / "run.acp")
    config = tmp_path / "config" / "duologue" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[recordings]\nredact = ["proj-[0-9]"]\n')
    ended = duologue(
        tmp_path, "trace", "redact", "run.acp", "-o", "new.acp", "--pattern", "emp-[0-9]", "--value-from-env", "WORD",
        WORD="open sesame",
    )  # fmt: skip

    assert (ended.returncode, ended.stdout) == (0, "new.acp: something was removed from 1 of 1 entries\n")
    assert "••• knows ••• of •••, not Alice" in (tmp_path / "new.acp").read_text()
    assert "emp-1" in (tmp_path / "run.acp").read_text()


def test_in_place_is_chosen_on_purpose(tmp_path: Path) -> None:
    RecordedRun().prompt("emp-1").save(tmp_path / "run.acp")
    neither = duologue(tmp_path, "trace", "redact", "run.acp")
    ended = duologue(tmp_path, "trace", "redact", "run.acp", "--in-place", "--pattern", "emp-[0-9]", "--json")

    assert neither.returncode == 2
    assert json.loads(ended.stdout) == {"format": 1, "file": "run.acp", "entries": 1, "changed": 1, "damaged": 0}
    assert "emp-1" not in (tmp_path / "run.acp").read_text()


def test_mistakes_are_named(tmp_path: Path) -> None:
    RecordedRun().prompt("x").save(tmp_path / "run.acp")
    (tmp_path / "new.acp").write_text("mine")

    def errors_of(*arguments: str) -> str:
        ended = duologue(tmp_path, "trace", "redact", "run.acp", *arguments)
        assert ended.returncode == 2
        return ended.stderr

    assert "new.acp exists" in errors_of("-o", "new.acp")
    assert "variable NOPE is not set" in errors_of("-o", "b.acp", "--value-from-env", "NOPE")
    assert "not a regular expression" in errors_of("-o", "b.acp", "--pattern", "(")
