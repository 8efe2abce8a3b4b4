"""The directories of an attempt that was cut off are found and removed, wherever they lie."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from duologue.evals.run.scheduler import clear_interrupted
from duologue.evals.run.scratch import Scratch
from tests.evals.run.suites import GREET, run_cases


async def test_the_directories_of_an_attempt_that_ended_before_their_removal_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leftovers: Callable[[], list[str]]
) -> None:
    _, run = await run_cases(tmp_path, GREET)
    key = run.manifest.trial_keys()[0]
    next(iter(run.records())).directory.rename(tmp_path / "away")
    with run.begin(key) as attempt:
        Scratch.create(attempt.directory)
    assert len(leftovers()) == 1

    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(other))
    found = run.interrupted()
    assert [each.key for each in found] == [key]
    for each in found:
        clear_interrupted(each)

    assert leftovers() == []
    assert list((run.path / "attempts").iterdir()) == []
