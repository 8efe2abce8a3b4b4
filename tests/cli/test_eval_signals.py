"""Ctrl-C and SIGTERM end the commands of `duologue eval` that run agents or graders, and nothing of them is left."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from duologue.evals.record.run_directory import RunDirectory
from tests.cli.program import PROGRAM, environment
from tests.evals.run.suites import python_agent, write_suite

AGENT = python_agent("obedient_agent")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_an_interrupted_run_keeps_what_is_done_and_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    running = tmp_path / "running"
    write_suite(tmp_path, case("good", "say yes"), case("slow", f"hang {running}"))
    words = ["run", "suite.toml", "--sandbox", "none", "--agent", f"it={AGENT}", "-o", "out"]
    code, _, errors = interrupted(tmp_path, words, running, number)

    assert code == 130, errors
    assert "cancelling the trials that run" in errors
    assert "--resume out" in errors
    assert [record.result().key.case for record in RunDirectory.open(tmp_path / "out").records()] == ["good"]
    assert list((tmp_path / "out" / "attempts").iterdir()) == []
    assert left(tmp_path) == ([], [])


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("words", [["capture", "-"], ["trials", "-", "-k", "1"]], ids=lambda words: words[0])
def test_interrupted_prompts_leave_the_lines_that_are_done_and_nothing_else(
    tmp_path: Path, words: list[str], number: signal.Signals
) -> None:
    running = tmp_path / "running"
    prompts = [{"id": "good", "input": "say yes"}, {"id": "slow", "input": f"hang {running}"}]
    options = ["--sandbox", "none", "--agent", AGENT]
    stdin = "\n".join(map(json.dumps, prompts))
    code, output, errors = interrupted(tmp_path, [*words, *options], running, number, stdin=stdin)

    assert code == 130, errors
    assert "cancelling the trials that run" in errors
    assert [json.loads(line)["id"] for line in output.splitlines()] == ["good"]
    assert left(tmp_path) == ([], [])


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_interrupted_graders_leave_nothing(tmp_path: Path, number: signal.Signals) -> None:
    running = tmp_path / "running"
    grader = tmp_path / "grader"
    grader.write_text(f"#!/bin/sh\ntouch {running}\nexec sleep 600\n")
    grader.chmod(0o755)
    reference = 'reference = "x"\ngraders = [{ type = "executable", command = ["./grader"], timeout = 600 }]\n'
    write_suite(tmp_path, case("it", "say x") + reference)
    code, _, errors = interrupted(tmp_path, ["validate-refs", "suite.toml"], running, number)

    assert code == 130, errors
    assert left(tmp_path) == ([], [])


def case(name: str, prompt: str) -> str:
    """Return a case whose turn may take long."""
    return f'[[cases]]\nid = "{name}"\nprompts = [{json.dumps(prompt)}]\ntimeouts = {{ turn = 600 }}\n'


def interrupted(
    home: Path, words: list[str], running: Path, number: signal.Signals, *, stdin: str = ""
) -> tuple[int, str, str]:
    """Run `duologue eval`, send it a signal when a file is there, and return its exit code and its output."""
    temporary = home / "temporary"
    temporary.mkdir()
    (home / "stdin").write_text(stdin)
    with (home / "stdin").open() as source:
        process = subprocess.Popen(
            [*PROGRAM, "eval", *words],
            cwd=home,
            env=environment(home, TMPDIR=str(temporary)),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    while not running.exists():
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
            raise AssertionError(process.communicate())
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def left(home: Path) -> tuple[list[str], list[str]]:
    """Return the directories for temporary files that are left, and the processes that know one."""
    processes: list[str] = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(home).encode() in (path / "environ").read_bytes():
                processes.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
    return sorted(each.name for each in (home / "temporary").iterdir()), processes
