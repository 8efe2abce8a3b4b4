"""The files of `eval capture` and `eval trials`: nothing is lost by a mistake, and each prompt gets its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duologue.evals.run.harness_lines import capture_line
from duologue.evals.run.progress import RunProgress, TrialEvent
from tests.cli.program import duologue
from tests.evals.run.suites import python_agent, run_cases

PROMPT = json.dumps({"id": "one", "input": "say yes"})


async def test_a_trial_whose_workspace_cannot_be_made_has_a_line_too(tmp_path: Path) -> None:
    case = '[[cases]]\nid = "it"\nprompts = ["hello"]\nworkspace = { source = "here" }\n'
    here = tmp_path / "suite" / "here"
    here.mkdir(parents=True)

    def remove(event: TrialEvent, progress: RunProgress) -> None:
        if here.exists():
            here.rmdir()

    end, run = await run_cases(tmp_path, case, observer=remove, options={"retries": 0})
    line = capture_line(next(iter(run.records())), run.suite().cases[0])

    assert end.progress.missing == 1
    assert (line["metadata"]["outcome"], line["metadata"]["agent"]) == ("sandbox_failed", "builtin")
    assert line["timing"]["total"] == 0
    assert "sandbox_failed" in line["errors"][-1]


@pytest.mark.parametrize(
    "words",
    [
        ["prompts.jsonl", "--cwd", "absent"],
        ["prompts.jsonl", "-g", "absent"],
        ["prompts.jsonl", "--credential", "absent"],
        ["prompts.jsonl", "--agent", "no-such-program --acp"],
        ["absent.jsonl"],
    ],
)
def test_the_results_of_before_stay_if_no_trial_can_start(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "prompts.jsonl").write_text(PROMPT)
    results = tmp_path / "results.jsonl"
    results.write_text("earlier\n")
    ended = duologue(tmp_path, "eval", "capture", *words, "-o", "results.jsonl", "--sandbox", "none")

    assert ended.returncode in (1, 2)
    assert "Traceback" not in ended.stderr
    assert results.read_text() == "earlier\n"


def test_new_results_replace_those_of_before(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text(PROMPT)
    results = tmp_path / "results.jsonl"
    results.write_text("earlier\n" * 10_000)
    words = ["prompts.jsonl", "-o", "results.jsonl", "--sandbox", "none", "--agent", python_agent("obedient_agent")]
    ended = duologue(tmp_path, "eval", "capture", *words)

    assert ended.returncode == 0, ended.stderr
    assert json.loads(results.read_text())["output"] == "yes"


@pytest.mark.parametrize("more", [[], ["--append"]])
def test_the_file_of_prompts_is_not_written(tmp_path: Path, more: list[str]) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(PROMPT)
    (tmp_path / "link").symlink_to(prompts)
    ended = duologue(tmp_path, "eval", "trials", "prompts.jsonl", "-o", "link", "--sandbox", "none", *more)

    assert ended.returncode == 2
    assert "it is the file of prompts" in ended.stderr
    assert prompts.read_text() == PROMPT
