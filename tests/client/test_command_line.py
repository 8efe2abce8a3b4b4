"""Command lines: one simple command is understood exactly as a shell does, everything else is left to a person."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.client.permissions.command_line import argv_of, program_of, shell_line, split

SIMPLE = {
    "git status": ["git", "status"],
    "  git\tstatus  ": ["git", "status"],
    "grep -n 'a b' \"c d\" x'y'z": ["grep", "-n", "a b", "c d", "xyz"],
    "echo ''": ["echo", ""],
    "make CC=clang": ["make", "CC=clang"],
    "echo 'semi;colon' '$(x)' '`x`' '>' '|'": ["echo", "semi;colon", "$(x)", "`x`", ">", "|"],
    "ls naïve/日本": ["ls", "naïve/日本"],
}

MORE_THAN_ONE_COMMAND = [
    *("git status; rm -rf x", "git status && rm x", "git status || x", "git status | x", "git status & x"),
    *("git status\nrm x", "git status\rrm x", "git status $(x)", "git status `x`", "git status ${x}", "git status $x"),
    *('git status "$(x)"', 'git status "`x`"', 'git status "$x"', 'echo "a\\"; x; \\""', "git status > x"),
    *("git status >> x", "git status < x", "git status <<< x", "git status 2>&1", "git status <(x)", "(git status)"),
    *("{ git status; }", "git status #x", "git *", "git ?", "git [a]", "git ~", "~/x", "git {a,b}", "! git status"),
    *("git status \\; x", "git\\ status", "git status 'x", 'git status "x', "git status !!", "git status ^a^b"),
    *("FOO=x git status", "PATH=. git status", "a=b", "=git status", "'' x", "", "   ", "\x00", "git\u2028status"),
    *("git status \u202e", "git\u00a0status", "git status \x1b[2J", "echo '\x1b[2J'", "echo '\n'", "git status；rm"),
    *("cd /tmp", "eval x", "exec x", "source x", ". x", "export A=b", "alias a=b", "if x", "time x", "command x", "["),
    "echo " + "x" * 200_000,
]


@pytest.mark.parametrize("line", SIMPLE)
def test_a_simple_command_is_its_words(line: str) -> None:
    assert split(line) == SIMPLE[line]


@pytest.mark.fault("PRM-06")
@pytest.mark.parametrize("line", MORE_THAN_ONE_COMMAND, ids=lambda line: repr(line[:40]))
def test_anything_more_is_not_understood(line: str) -> None:
    assert split(line) is None


CHARACTERS = st.sampled_from(
    [*"ab-_/.,:=@%+ \t'\"\\$`;|&<>(){}[]*?~#!^\n\r\x00é日", "\u202e", "\u00a0", "'x y'", '"x"']
)


@given(st.lists(CHARACTERS, max_size=30).map("".join))
def test_a_command_line_that_is_parsed_is_parsed_as_by_shlex(line: str) -> None:
    words = split(line)

    assert words is None or words == shlex.split(line)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=5))
def test_a_quoted_command_line_is_parsed_to_the_same_arguments_or_rejected(words: list[str]) -> None:
    assert split(shlex.join(words)) in (words, None)


def test_the_shell_of_this_machine_splits_simple_lines_the_same_way() -> None:
    lines = [line for line in SIMPLE if not line.startswith("make")]
    script = "\n".join(f"show {line}" for line in lines)
    show = 'show() { for word in "$@"; do printf "%s\\0" "$word"; done; printf "\\n"; }\n'
    printed = subprocess.run(["/bin/sh", "-c", show + script], capture_output=True, text=True, check=True, timeout=60)

    assert [line.split("\0")[:-1] for line in printed.stdout.splitlines()] == [SIMPLE[line] for line in lines]


@pytest.mark.fault("TRM-18")
def test_a_command_with_arguments_is_a_program_and_without_any_perhaps_a_line() -> None:
    assert argv_of("git status; x", ["a b", ";"]) == ["git status; x", "a b", ";"]
    assert argv_of("git", []) == ["git"]
    assert argv_of("git status", []) == ["git", "status"]
    assert argv_of("git status | wc", []) == ["/bin/sh", "-c", "git status | wc"]
    assert argv_of("a;b", []) == ["/bin/sh", "-c", "a;b"]
    assert argv_of("", []) == [""]


def test_only_a_real_shell_with_one_line_is_that_line() -> None:
    assert shell_line(["sh", "-c", "x"]) == "x"
    assert shell_line(["/bin/bash", "-lc", "x"]) == "x"
    assert shell_line(["./sh", "-c", "x"]) is None
    assert shell_line(["/tmp/bash", "-c", "x"]) is None
    assert shell_line(["sh", "-c", "x", "y"]) is None
    assert shell_line(["sh", "-x", "x"]) is None
    assert shell_line(["fish", "-c", "x"]) is None


def test_a_program_is_known_by_its_bare_name() -> None:
    assert {program_of(word) for word in ("python", "/usr/bin/python3.11", "PYTHON.exe", "python3")} == {"python"}
    assert program_of("7") == "7"
