"""`duologue eval run`, `eval capture` and `eval trials`, as programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from duologue.evals.record.run_directory import RunDirectory
from tests.cli.program import duologue, terminal
from tests.evals.run.suites import python_agent, write_suite

AGENT = python_agent("obedient_agent")

PASSES = '[[cases]]\nid = "good"\nprompts = ["say yes"]\ngraders = [{ type = "text", equals = "yes" }]\n'
FAILS = '[[cases]]\nid = "bad"\nprompts = ["say no"]\ngraders = [{ type = "text", equals = "yes" }]\n'


def evaluate(home: Path, *arguments: str, agent: str = AGENT) -> subprocess.CompletedProcess[str]:
    """Run the suite of a directory with an agent."""
    return duologue(home, "eval", "run", "suite.toml", "--sandbox", "none", "--agent", f"it={agent}", *arguments)


def test_a_run_shows_its_progress_and_a_table(tmp_path: Path) -> None:
    write_suite(tmp_path, PASSES, FAILS)
    ended = evaluate(tmp_path, "-n", "2", "-o", "out")

    assert ended.returncode == 0, ended.stderr
    assert "[1/4] it good 1: passed" in ended.stderr
    assert "bad 2: failed" in ended.stderr
    assert "the output is not 'yes'" in ended.stderr
    assert "pass@1" in ended.stdout
    assert "0.500" in ended.stdout
    assert "agents were confined not at all: not wanted" in ended.stderr
    assert len(list(RunDirectory.open(tmp_path / "out").records())) == 4


def test_a_threshold_that_is_not_reached_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    write_suite(tmp_path, PASSES, FAILS)
    met = evaluate(tmp_path, "-o", "one", "--fail-under", "pass@1=0.5")
    unmet = evaluate(tmp_path, "-o", "two", "--fail-under", "pass@1=0.8", "--quiet")

    assert (met.returncode, unmet.returncode) == (0, 12)
    assert "below the threshold: it: pass@1 is 0.500" in unmet.stderr


def test_missing_trials_have_an_exit_code_of_their_own_and_are_named(tmp_path: Path) -> None:
    write_suite(tmp_path, '[[cases]]\nid = "broken"\nprompts = ["crash"]\n')
    ended = evaluate(tmp_path, "--retries", "0", "-o", "out")

    assert ended.returncode == 13
    assert "it broken 1: missing" in ended.stderr
    assert "agent_crashed" in ended.stderr
    assert "--resume out --sandbox none --retries 0 --retry-missing" in ended.stderr


def test_json_has_a_line_for_each_trial_and_one_for_the_run(tmp_path: Path) -> None:
    write_suite(tmp_path, PASSES, FAILS)
    ended = evaluate(tmp_path, "--json", "--quiet", "-o", "out")

    lines: list[dict[str, Any]] = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["trial", "trial", "run"]
    assert {line["format"] for line in lines} == {1}
    assert [line.get("verdict") for line in lines] == ["passed", "failed", None]
    assert lines[-1]["agents"][0]["pass@1"] == 0.5
    assert ended.stderr == ""


def test_mistakes_are_reported_before_anything_starts(tmp_path: Path) -> None:
    path = write_suite(tmp_path, PASSES.replace("graders", "grader"))
    wrong = evaluate(tmp_path)
    path.write_text(PASSES)
    budget = evaluate(tmp_path, "--budget", "5USD")
    threshold = evaluate(tmp_path, "--fail-under", "nonsense")
    absent = evaluate(tmp_path, agent="no-such-program --acp")

    assert "unknown field 'grader'" in wrong.stderr
    assert "5 USD cannot be kept" in budget.stderr
    assert "no threshold" in threshold.stderr
    assert "cannot be started" in absent.stderr
    assert [ended.returncode for ended in (wrong, budget, threshold, absent)] == [1, 1, 2, 1]
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("seed", ["-1", "x", "1.5"])
def test_a_seed_is_a_whole_number_from_0(tmp_path: Path, seed: str) -> None:
    found = evaluate(tmp_path, f"--seed={seed}")

    assert found.returncode == 2
    assert f"expected a whole number from 0, not '{seed}'" in found.stderr
    assert not (tmp_path / "runs").exists()


def test_a_run_is_continued_with_the_agents_that_it_has(tmp_path: Path) -> None:
    write_suite(tmp_path, PASSES)
    evaluate(tmp_path, "-n", "2", "-o", "out")
    records = sorted((tmp_path / "out" / "trials").glob("*/*/*"))
    for file in records[0].iterdir():
        file.unlink()
    records[0].rmdir()

    ended = duologue(tmp_path, "eval", "run", "suite.toml", "--sandbox", "none", "--resume", "out")
    again = duologue(
        tmp_path, "eval", "run", "suite.toml", "--sandbox", "none", "--agent", "builtin", "--resume", "out"
    )

    assert ended.returncode == 0, ended.stderr
    assert "[2/2] it good 1: passed" in ended.stderr
    assert "cannot be continued with builtin" in again.stderr


def test_a_new_run_needs_an_empty_directory(tmp_path: Path) -> None:
    write_suite(tmp_path, PASSES)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()

    assert "is not empty" in evaluate(tmp_path, "-o", "out").stderr
    (tmp_path / "out" / "mine").unlink()
    (tmp_path / "out" / "trials").mkdir()  # as after a kill before the first trial
    assert evaluate(tmp_path, "-o", "out").returncode == 0


def test_a_terminal_shows_what_runs(tmp_path: Path) -> None:
    running = tmp_path / "running"
    paid = '[[cases]]\nid = "paid"\nprompts = ["cost 0.25"]\n'
    slow = f'[[cases]]\nid = "slow"\nprompts = ["hang {running}"]\ntimeouts = {{ turn = 3 }}\n'
    write_suite(tmp_path, PASSES, paid, slow)
    arguments = ("eval", "run", "suite.toml", "--sandbox", "none", "--agent", f"it={AGENT}", "-o", "out")
    with terminal(tmp_path, *arguments) as screen:
        screen.until("1 passed")
        screen.until("0.25 USD")
        screen.until("left")
        screen.until("it slow 1")
        screen.until("pass@1")
        assert screen.wait() == 0


def test_graders_find_the_files_of_a_run_in_a_relative_directory(tmp_path: Path) -> None:
    program = """
import json, pathlib, sys
trial = json.load(sys.stdin)
print(json.dumps({"pass": (pathlib.Path(trial["cwd"]) / "it.txt").read_text() == "yes"}))
"""
    (tmp_path / "suite" / "tests").mkdir(parents=True)
    (tmp_path / "suite" / "grade.py").write_text(program)
    (tmp_path / "suite" / "tests" / "test.sh").write_text('test "$(cat it.txt)" = yes\n')
    graders = f"""
[[cases]]
id = "it"
prompts = ["write it.txt yes"]
[[cases.graders]]
type = "executable"
command = ["{sys.executable}", "grade.py"]
[[cases.graders]]
type = "command"
command = ["sh", "{{tests}}/test.sh"]
tests = "tests"
"""
    write_suite(tmp_path / "suite", graders)
    words = ["--sandbox", "none", "--agent", f"it={AGENT}", "-o", "out"]
    ended = duologue(tmp_path, "eval", "run", "suite", *words)
    again = duologue(tmp_path, "eval", "grade", "out")

    assert "1/1] it it 1: passed" in ended.stderr
    assert again.stdout == "1 graded, 0 changed, 0 undecided, 0 not to be graded\n"


def test_capture_writes_the_lines_of_the_harness(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    first = {
        "id": "first one",
        "input": ["say a", "tool look\nsay b"],
        "hint": "letters",
        "metadata": {"category": "x"},
    }
    prompts.write_text("\n".join(map(json.dumps, [first, {"id": "two", "input": "crash"}])))
    grader = tmp_path / "grader"
    grader.write_text('#!/bin/sh\ncat >/dev/null\necho \'{"pass": true, "score": 0.5, "reasoning": "half"}\'\n')
    grader.chmod(0o755)
    words = ["eval", "capture", "prompts.jsonl", "-g", "./grader", "-o", "results.jsonl", "--sandbox", "none"]
    ended = duologue(tmp_path, *words, "--", *AGENT.split())

    assert ended.returncode == 13, ended.stderr
    one, two = (json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines())
    assert (one["id"], one["input"], one["output"], one["hint"]) == ("first one", first["input"], "b", "letters")
    assert [step["type"] for step in one["trajectory"]] == ["message", "tool_call", "message"]
    assert one["score"] == {"pass": True, "score": 0.5, "reasoning": "half"}
    assert one["metadata"]["category"] == "x"
    assert (one["metadata"]["turnCount"], one["metadata"]["trajectoryRichness"]) == (2, "full")
    assert one["timing"]["end"] >= one["timing"]["start"] > 1e12
    assert one["toolErrors"] is False
    assert "agent_crashed" in two["errors"][-1]
    assert "score" not in two

    again = duologue(tmp_path, *words, "--append", "--", *AGENT.split())
    assert "the output has them all already" in again.stderr


def test_trials_writes_one_line_for_each_prompt_with_all_its_trials(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    step = f"shell echo x >> {counter}; wc -l < {counter}"
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"id": "one", "input": step}))
    grader = tmp_path / "grader"
    grader.write_text('#!/bin/sh\ngrep -q \'"output":"2\' && echo \'{"pass": true}\' || echo \'{"pass": false}\'\n')
    grader.chmod(0o755)
    words = ["eval", "trials", "-", "-k", "3", "-g", "./grader", "--sandbox", "none", "--agent", AGENT]
    ended = duologue(tmp_path, *words, stdin=(tmp_path / "prompts.jsonl").read_text())

    line = json.loads(ended.stdout)
    assert (ended.returncode, line["id"], line["k"]) == (0, "one", 3)
    assert [trial["pass"] for trial in line["trials"]] == [False, True, False]
    assert [trial["trialNum"] for trial in line["trials"]] == [1, 2, 3]
    assert (round(line["passRate"], 3), line["passAtK"], line["passExpK"]) == (0.333, 1.0, 0.0)


def test_running_trials_imports_no_library_of_statistics() -> None:
    script = (
        "import sys, duologue.cli.commands.eval.run; print([m for m in ('numpy', 'scipy', 'rich') if m in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == "[]"
