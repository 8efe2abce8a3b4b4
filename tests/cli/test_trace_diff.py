"""`duologue trace diff`, as a program."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import duologue
from tests.trace.recorded_run import RecordedRun, whole_run


def test_equal_runs_are_equal(tmp_path: Path) -> None:
    whole_run("first-session").save(tmp_path / "a.acp")
    whole_run("other-session").save(tmp_path / "b.acp")
    ended = duologue(tmp_path, "trace", "diff", "a.acp", "b.acp")

    assert ended.returncode == 0
    assert ended.stdout.endswith("the runs are equal: 17 messages\n")


def test_differences_are_shown_with_both_values(tmp_path: Path) -> None:
    RecordedRun().opened().text("one\x1b[2J").text("same", kind="agent_thought_chunk").save(tmp_path / "a.acp")
    RecordedRun().opened().text("two").text("same", kind="agent_thought_chunk").update("weather").save(
        tmp_path / "b.acp"
    )
    ended = duologue(tmp_path, "trace", "diff", "a.acp", "b.acp")

    assert ended.returncode == 1
    assert ended.stdout == (
        "--- a.acp\n+++ b.acp\n  … 4 equal\n"
        "~ <-- session/update agent_message_chunk (5, 5)\n"
        "      $.params.update.content.text\n"
        '    - "one\\u001b[2J"\n    + "two"\n'
        "  … 1 equal\n"
        "+ <-- session/update weather (7)\n"
        '    + {"sessionId":"session 1","update":{"sessionUpdate":"weather"}}\n'
        "1 changed, 0 only in a.acp, 1 only in b.acp, 5 equal\n"
    )


def test_long_texts_are_compared_line_by_line_and_many_paths_are_counted(tmp_path: Path) -> None:
    for name, word in (("a", "old"), ("b", "new")):
        run = RecordedRun().text("\n".join(["same"] * 50 + [word]))
        run.frame("to_agent", method="_m", params=[word] * 30).save(tmp_path / f"{name}.acp")
    ended = duologue(tmp_path, "trace", "diff", "a.acp", "b.acp")
    full = duologue(tmp_path, "trace", "diff", "a.acp", "b.acp", "--full")

    assert "      same\n    - old\n    + new\n" in ended.stdout
    assert "… 10 more; --full shows them" in ended.stdout
    assert "$.params[29]" in full.stdout


def test_lines_of_json_have_the_differences_and_a_summary(tmp_path: Path) -> None:
    RecordedRun().text("one").save(tmp_path / "a.acp")
    RecordedRun().text("two").update("weather").save(tmp_path / "b.acp")
    lines = duologue(tmp_path, "trace", "diff", "a.acp", "b.acp", "--json").stdout.splitlines()
    changed, added, summary = map(json.loads, lines)

    assert changed["differences"] == [{"path": "$.params.update.content.text", "a": "one", "b": "two"}]
    assert (added["result"], added["b"], added["update"]) == ("only_b", 2, "weather")
    assert summary == {"format": 1, "summary": {"same": 0, "changed": 1, "only_a": 0, "only_b": 1}}
    ignored = duologue(tmp_path, "trace", "diff", "a.acp", "b.acp", "--ignore", "*.text", "--json", "--full").stdout
    assert json.loads(ignored.splitlines()[0])["result"] == "same"


def test_a_file_that_is_no_recording_is_named(tmp_path: Path) -> None:
    RecordedRun().text("one").save(tmp_path / "a.acp")
    (tmp_path / "notes.md").write_text("mine")

    assert "notes.md is not a recording" in duologue(tmp_path, "trace", "diff", "a.acp", "notes.md").stderr
