"""A run that is continued: with the same agents only, and complete only if no trial is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue.evals.exceptions import RecordError
from tests.cli.program import duologue
from tests.evals.run.suites import GREET, python_agent, run_cases, write_suite

AGENT = python_agent("obedient_agent")
CRASH = '[[cases]]\nid = "broken"\nprompts = ["crash"]\n'


async def test_a_continued_run_with_a_missing_trial_is_not_complete(tmp_path: Path) -> None:
    first, _ = await run_cases(tmp_path, CRASH, agents={"it": AGENT}, options={"retries": 0})
    again, _ = await run_cases(tmp_path, CRASH, agents={"it": AGENT}, options={"retries": 0})

    assert (first.progress.missing, first.is_complete) == (1, False)
    assert (again.progress.finished, again.progress.missing, again.is_complete) == (0, 1, False)


async def test_a_missing_trial_that_is_run_again_is_counted_once(tmp_path: Path) -> None:
    await run_cases(tmp_path, CRASH, agents={"it": AGENT}, options={"retries": 0})
    again, _ = await run_cases(tmp_path, CRASH, agents={"it": AGENT}, options={"retries": 0}, retry_missing=True)

    assert (again.progress.finished, again.progress.missing) == (1, 1)


async def test_a_run_is_not_continued_with_another_command_of_the_same_label(tmp_path: Path) -> None:
    await run_cases(tmp_path, GREET, agents={"it": "builtin"})

    with pytest.raises(RecordError, match=r"cannot be continued with .*obedient_agent"):
        await run_cases(tmp_path, GREET, agents={"it": AGENT})


async def test_a_run_is_continued_although_its_command_has_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "k-0123456789abcdef")
    agents, options = {"it": f"{AGENT} k-0123456789abcdef"}, {"env": ("MY_API_KEY",)}
    _, run = await run_cases(tmp_path, GREET, agents=agents, options=options)
    end, _ = await run_cases(tmp_path, GREET, agents=agents, options=options)

    assert "k-0123456789abcdef" not in (run.path / "run.json").read_text()
    assert end.progress.finished == 0


def test_the_command_to_go_on_has_the_options_and_names_the_limits(tmp_path: Path) -> None:
    write_suite(tmp_path, CRASH)
    options = ["--sandbox", "none", "--retries", "0", "--login", "by-key", "--v2"]
    limits = ["--time-limit", "1h", "--prompt-limit", "9"]
    words = ["eval", "run", "suite.toml", "--agent", f"it={AGENT}", "-o", "out", *options, *limits]
    ended = duologue(tmp_path, *words)

    assert ended.returncode == 13, ended.stderr
    assert f"duologue eval run suite.toml --resume out {' '.join(options)} --retry-missing\n" in ended.stderr
    assert "This command has no limits; add what shall hold: --time-limit, --prompt-limit\n" in ended.stderr
