"""`/tour`: the main things in one turn."""

from __future__ import annotations

from pathlib import Path

from duologue.schema import v1
from tests.builtin.harness import open_harness


async def test_the_tour_writes_changes_and_runs_for_real(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        text = await harness.ask("/tour")

        assert (tmp_path / "duologue-example.txt").read_text() == "Hello, I was changed by an agent.\n"
        assert "printed 34 characters" in text
        assert {entry.status for entry in harness.of(v1.Plan)[-1].entries} == {"completed"}
        assert len(harness.asked) == 3


async def test_the_tour_goes_on_when_everything_is_refused(tmp_path: Path) -> None:
    async with open_harness(tmp_path, choose="reject_once") as harness:
        await harness.ask("/tour")

        assert not (tmp_path / "duologue-example.txt").exists()
        assert {entry.status for entry in harness.of(v1.Plan)[-1].entries} == {"pending"}
