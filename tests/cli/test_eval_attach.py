"""`duologue eval run --attach`: the program prints where its trials can be watched, and the example watches one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.program import PROGRAM, duologue, environment

EXAMPLE = Path(__file__).parents[2] / "examples" / "watch_trial.py"
SECONDS = 120

AGENT = """
import asyncio, pathlib, sys
from duologue import Agent, Turn

agent = Agent("waiting")

@agent.on_prompt
async def answer(turn: Turn) -> None:
    await turn.say("first ")
    gate = await asyncio.to_thread(pathlib.Path(sys.argv[1]).read_text)
    await turn.say(gate)

agent.run()
"""


@pytest.mark.timeout(200)
def test_a_trial_of_the_program_is_watched_by_the_example(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "suite.jsonl").write_text('{"id": "fix", "prompts": ["Fix it."]}\n')
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    agent = f"one={sys.executable} {tmp_path}/agent.py {gate}"
    command = [*PROGRAM, "eval", "run", "suite.jsonl", "--agent", agent, "--attach", "--sandbox", "none", "-o", "run"]
    env = environment(tmp_path)
    with ExitStack() as stack:
        run = subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        stack.callback(run.kill)
        assert run.stderr is not None
        lines = iter(run.stderr.readline, b"")
        url = next(
            found[0] for line in lines if (found := re.search(r"ws://127.0.0.1:\d+/acp#token=\S+", line.decode()))
        )
        # Opened for writing only when the agent reads it, so that the trial is running.
        with gate.open("w") as opened:
            watcher = subprocess.Popen(
                [sys.executable, "-u", str(EXAMPLE), url], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            stack.callback(watcher.kill)
            assert watcher.stdout is not None
            head = [watcher.stdout.readline().decode() for _ in range(3)]
            opened.write("last")
        shown, _ = watcher.communicate(timeout=SECONDS)
        _, errors = run.communicate(timeout=SECONDS)

    assert head == ["# one: fix, trial 1\n", "user: Fix it.\n", "agent: first \n"]
    assert shown.decode().startswith("last")
    assert "[the trial has ended: completed, end_turn]" in shown.decode()
    assert (watcher.returncode, url.encode() in errors) == (0, False)
    assert not list((tmp_path / "run" / "attempts").glob("*/"))
    recorded = (tmp_path / "run" / "run.json").read_text()
    assert url.partition("#token=")[2] not in recorded


@pytest.mark.parametrize("option", ["--attach", "--attach-control"])
def test_trials_on_a_cluster_are_refused_in_a_sentence(tmp_path: Path, option: str) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    (tmp_path / "suite.jsonl").write_text('{"id": "fix", "prompts": ["Fix it."]}\n')
    ended = duologue(tmp_path, "eval", "run", "suite.jsonl", option, "--engine", "dask://127.0.0.1:1", "-o", "run")

    assert ended.returncode == 2
    assert "--attach: received --engine dask://127.0.0.1:1, expected local" in ended.stderr
    assert not (tmp_path / "run").exists()
