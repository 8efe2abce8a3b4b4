"""`duologue eval export inspect`, `atif` and `swebench`, as a program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import duologue
from tests.evals.run_builder import build_run

EXAMPLE = Path(__file__).parents[2] / "examples" / "export_run.py"


@pytest.fixture
def run(tmp_path: Path) -> str:
    """Return the path of a run, relative to the directory of the test."""
    build_run(tmp_path, {"one": {"fix": "PC"}, "two/\x1b[31m": {"fix": "F-"}})
    return "run"


def test_inspect_prints_the_logs_that_it_wrote(tmp_path: Path, run: str) -> None:
    ended = duologue(tmp_path, "eval", "export", "inspect", run, "-o", "logs", "--log-format", "json")
    files = ended.stdout.splitlines()

    assert (ended.returncode, ended.stderr) == (0, "")
    assert [json.loads((tmp_path / name).read_bytes())["status"] for name in files] == ["success", "cancelled"]
    assert sorted(files) == sorted(f"logs/{path.name}" for path in (tmp_path / "logs").iterdir())
    assert all(name.isprintable() for name in files)
    assert duologue(tmp_path, "eval", "export", "inspect", run, "-o", "logs").stdout.count(".eval\n") == 2


def test_atif_says_how_many_trajectories_there_are(tmp_path: Path, run: str) -> None:
    ended = duologue(tmp_path, "eval", "export", "atif", run, "-o", "out")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "3 trajectories in out\n", "")
    assert len(list(tmp_path.glob("out/*/fix/*.json"))) == 3


def test_swebench_names_the_trials_that_it_leaves_out(tmp_path: Path, run: str) -> None:
    ended = duologue(tmp_path, "eval", "export", "swebench", run, "--agent", "one", "-o", "predictions.jsonl")
    second = duologue(tmp_path, "eval", "export", "swebench", run, "--agent", "one", "--trial", "2")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert json.loads((tmp_path / "predictions.jsonl").read_bytes())["instance_id"] == "fix"
    assert (second.returncode, second.stdout) == (0, "")
    assert second.stderr == "left out: fix, trial 2: agent_crashed\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["inspect"], "writes several files: name a directory with `-o DIR`"),
        (["csv", "--log-format", "json"], "`--log-format` belongs to `export inspect`"),
        (["atif", "-o", "out", "--agent", "one"], "`--agent` belongs to `export swebench`"),
        (["swebench"], "received no agent, expected the label of one agent, of which these exist: one, two/"),
        (["atif", "-o", "suite/small.jsonl/out"], "cannot be written: Not a directory"),
    ],
)
def test_a_mistake_is_explained(tmp_path: Path, run: str, words: list[str], message: str) -> None:
    ended = duologue(tmp_path, "eval", "export", words[0], run, *words[1:])

    assert ended.returncode == 2
    assert message in ended.stderr
    assert "\x1b[31m" not in ended.stderr


def test_the_example_writes_all_three(tmp_path: Path) -> None:
    build_run(tmp_path, {"one": {"fix": "PF"}})
    command = [sys.executable, str(EXAMPLE), "run", "out"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "1 log, 2 trajectories, 1 prediction\n"
    assert len(list(tmp_path.glob("out/logs/*.eval"))) == 1
