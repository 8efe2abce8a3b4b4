"""Output of `duologue run`: names of files and commands, results of tools, and acts that no permission prevents."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import ACTING_AGENT, ODD_AGENT, PROGRAM, SECONDS, duologue, environment, terminal


def test_an_agent_that_starts_slowly_is_announced(tmp_path: Path) -> None:
    ready = tmp_path / "sign"
    os.mkfifo(ready)
    with terminal(tmp_path, "run", "hi", "--", *ODD_AGENT, "deaf", str(ready)) as console:
        assert ready.read_text() == "here"  # waits until the agent has opened it
        console.until("starting ")
        console.until("odd_agent.py deaf ")
        console.interrupt()

        assert console.wait() == 130


def test_the_result_of_a_tool_that_only_reads_is_short_unless_it_is_wanted_whole(tmp_path: Path) -> None:
    short = duologue(tmp_path, "run", "read", "--", *ACTING_AGENT)
    whole = duologue(tmp_path, "run", "read", "--verbose", "--", *ACTING_AGENT)

    assert "    line 2\n    … 7 more lines; --verbose shows them\n" in short.stderr
    assert "line 3" not in short.stderr
    assert [number for number in range(10) if f"    line {number}\n" not in whole.stderr] == []


def test_text_before_and_after_a_tool_call_is_on_separate_lines(tmp_path: Path) -> None:
    assert duologue(tmp_path, "run", "read", "--", *ACTING_AGENT).stdout == "Before.\nThat is all."


def test_a_title_that_names_no_file_is_shown_with_the_file(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "claim", "--", *ACTING_AGENT)

    assert "● edit: Create file (secretly.txt)\n" in ended.stderr
    assert "● execute: Bash (make secretly)\n" in ended.stderr


def test_output_and_messages_in_one_log_are_on_separate_lines(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*PROGRAM, "run", "read", "--", *ACTING_AGENT],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
        cwd=tmp_path,
        env=environment(tmp_path),
        start_new_session=True,
    )

    assert ended.stdout.decode().startswith("Before.\n○ read: Look (long.txt)\n")
    assert "\nThat is all.\n(end_turn, " in ended.stdout.decode()


def test_without_a_unicode_locale_the_marks_are_ascii(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "claim", "--", *ACTING_AGENT, LC_ALL="C")

    assert "[ ] edit: Create file (secretly.txt)\n[x] edit: Create file (secretly.txt)\n" in ended.stderr


@pytest.mark.parametrize("flag", ["--read-only", "--yes"])
def test_acts_that_no_permission_could_prevent_are_named(tmp_path: Path, flag: str) -> None:
    ended = duologue(tmp_path, "run", "claim", flag, "--", *ACTING_AGENT)
    json_lines = duologue(tmp_path, "run", "claim", flag, "--json", "--", *ACTING_AGENT).stdout.splitlines()

    acts = [f"edit {tmp_path.resolve() / 'secretly.txt'}", "execute make secretly"]
    warning = "the agent did this without asking, where no rule or --read-only could prevent it:\n"
    assert warning + "".join(f"  {act}\n" for act in acts) in ended.stderr
    assert [event["acts"] for event in map(json.loads, json_lines) if event["event"] == "Unchecked"] == [acts]


@pytest.mark.parametrize("prompt", ["write", "named echo hello", "unnamed echo hello", "run echo hello", "read"])
def test_acts_that_a_permission_decided_are_not_named(tmp_path: Path, prompt: str) -> None:
    ended = duologue(tmp_path, "run", prompt, "--yes", "--", *ACTING_AGENT)

    assert ended.returncode == 0
    assert "without asking" not in ended.stderr


@pytest.mark.parametrize("arguments", [["run", "hi"], ["run", "/stream 20000"], ["run", "hi", "--json"], ["agents"]])
def test_output_that_cannot_be_written_is_an_error_in_a_sentence(tmp_path: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [*PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=False,
            cwd=tmp_path,
            env=environment(tmp_path),
        )

    assert ended.returncode == 1
    assert ended.stderr.endswith("duologue: cannot write the output: No space left on device\n")
    assert "Traceback" not in ended.stderr
