"""Piped input of `duologue run`: it is part of the prompt, and no silent pipe blocks the run."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.program import PROGRAM, duologue, environment

RUN = shlex.join([*PROGRAM, "run"])
SECONDS = 60.0


def shell(home: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line as a script does, without a terminal."""
    return subprocess.run(
        ["sh", "-c", line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=home,
        env=environment(home),
        start_new_session=True,
        check=False,
    )


@contextmanager
def started(home: Path, line: str, stdin: int) -> Generator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        ["sh", "-c", line],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home,
        env=environment(home),
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_piped_input_follows_the_prompt(tmp_path: Path) -> None:
    ended = shell(tmp_path, f"printf 'one\\ntwo\\n' | {RUN} '/echo review this'")

    assert ended.returncode == 0
    assert ended.stdout.startswith("You said:\n\n```\nreview this\n\none\ntwo\n```\n")


def test_piped_input_alone_is_the_prompt(tmp_path: Path) -> None:
    assert shell(tmp_path, f"echo /echo question | {RUN}").stdout.startswith("You said: question\n")


def test_a_redirected_file_follows_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "diff").write_text("+ a line\n")

    assert shell(tmp_path, f"{RUN} '/echo review this' < diff").stdout.startswith(
        "You said:\n\n```\nreview this\n\n+ a line\n```\n"
    )


def test_a_prompt_from_a_file_is_followed_by_piped_input(tmp_path: Path) -> None:
    (tmp_path / "prompt").write_text("/echo review this")

    assert "review this\n\nmore" in shell(tmp_path, f"echo more | {RUN} -f prompt").stdout


def test_a_loop_that_reads_a_file_keeps_its_lines(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("one\ntwo\n")
    ended = shell(tmp_path, f'while read -r line; do {RUN} "/echo $line"; done < list')

    assert [line for line in ended.stdout.splitlines() if line.startswith("You said")] == [
        "You said: one",
        "You said: two",
    ]


def test_without_any_prompt_the_three_ways_to_give_one_are_named(tmp_path: Path) -> None:
    ended = shell(tmp_path, RUN)

    assert ended.returncode == 2
    assert "as an argument, with `-f FILE`, or piped into it" in ended.stderr


def test_a_terminal_is_not_read(tmp_path: Path) -> None:
    screen, theirs = pty.openpty()
    try:
        with started(tmp_path, f"{RUN} '/echo hello'", theirs) as process:
            shown, _ = process.communicate(timeout=SECONDS)
    finally:
        os.close(screen)
        os.close(theirs)

    assert shown.startswith("You said: hello\n")


def test_a_silent_pipe_of_the_caller_is_left_alone(tmp_path: Path) -> None:
    with started(tmp_path, f"{RUN} '/echo hello'", subprocess.PIPE) as process:
        # Closed only after the program has ended: a service manager keeps such a pipe open and never writes to it.
        assert process.stdout is not None
        assert process.stderr is not None
        shown, messages = process.stdout.read(), process.stderr.read()

    assert shown.startswith("You said: hello\n")
    assert "nothing arrives on stdin: running without it" in messages


def test_a_slow_pipeline_is_waited_for_and_a_line_says_so(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "slow")
    with started(tmp_path, f"cat slow | {RUN} '/echo hello'", subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        with (tmp_path / "slow").open("w") as slow:
            notice = process.stderr.readline()
            slow.write("at last\n")
        shown = process.stdout.read()

    assert notice.startswith("waiting for the end of stdin")
    assert shown.startswith("You said:\n\n```\nhello\n\nat last\n```\n")


@pytest.mark.parametrize("prompt", ["'/echo hello'", ""])
def test_a_pipeline_that_never_ends_is_abandoned_at_the_timeout(tmp_path: Path, prompt: str) -> None:
    os.mkfifo(tmp_path / "silent")
    with started(tmp_path, f"cat silent | {RUN} {prompt} --timeout 3", subprocess.DEVNULL) as process:
        assert process.stderr is not None
        with (tmp_path / "silent").open("w"):
            messages = process.stderr.readline() + process.stderr.readline()
        code = process.wait(SECONDS)

    assert code == 6
    assert "stdin was not closed within 3 s" in messages


def test_too_much_input_is_refused_with_the_remedy(tmp_path: Path) -> None:
    ended = shell(tmp_path, f"{shlex.quote(sys.executable)} -c 'print(\"x\" * 9_000_000)' | {RUN} hello")

    assert ended.returncode == 2
    assert "stdin has more than 8,388,608 bytes; save it and attach it with --file" in ended.stderr


def test_input_that_is_not_text_is_refused(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "hello", stdin=b"\xff\xfe")

    assert (ended.returncode, ended.stderr) == (2, "duologue: stdin is not UTF-8\n")
