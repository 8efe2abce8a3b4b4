"""`duologue check` on the command line: verdicts decide the exit code, and the report says what it could not judge."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import duologue, terminal

EXAMPLES = Path(__file__).parents[2] / "examples"

SILENT = [sys.executable, "-c", "import sys\nfor line in sys.stdin: pass"]
"""An agent that reads everything and answers nothing."""
REMEMBERS = """
import sys
from duologue import run

async def answer(turn):
    with open(sys.argv[1], "a") as file:
        file.write(turn.text + "\\n")
    await turn.say("yes")

run(answer)
"""
"""An agent that writes the prompts it gets to a file."""


def test_the_built_in_agent_passes_and_stale_entries_of_a_baseline_are_named(tmp_path: Path) -> None:
    known = "format = 1\n[[known]]\nrule = 10\n[[known]]\nrule = 999\n[[known]]\nrule = 183\nversion = 2\n"
    (tmp_path / "known.toml").write_text(known, "utf-8")
    words = ["check", "agent", "--only", "10,183", "--protocol", "1", "--timeout", "50", "--baseline", "known.toml"]
    ended = duologue(tmp_path, *words)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "fixed since the baseline (rule/version): 10/1; remove them from it" in ended.stdout
    unjudged = "999 (there is no such rule), 183/2 (version 2 was not checked)"
    assert f"note: entries of the baseline that this check did not judge: {unjudged}; remove" in ended.stdout
    assert "no rule is broken" in ended.stdout


def test_an_agent_that_answers_nothing_is_asked_twice_and_the_report_says_so(tmp_path: Path) -> None:
    words = ["check", "agent", "--only", "26,27", "--protocol", "1", "--timeout", "0.3", "--strict"]
    ended = duologue(tmp_path, *words, "--json", "--", *SILENT)

    assert ended.returncode == 1, ended.stderr
    cases = json.loads(ended.stdout)["cases"]
    assert [(case["isRepeated"], case["hasTimedOut"]) for case in cases] == [(True, True)] * 2
    shown = duologue(tmp_path, *words, "--", *SILENT)
    named = "version-supported (version 1), version-unsupported (version 1)"
    assert f"the second run decides: {named}; 2 of them waited in vain again\n" in shown.stdout


def test_a_wrong_rule_version_or_baseline_is_a_wrong_command_line(tmp_path: Path) -> None:
    for words in (["--only", "999"], ["--protocol", "3"], ["--baseline", "missing.toml"], ["--jobs", "0"]):
        ended = duologue(tmp_path, "check", "agent", *words)
        assert ended.returncode == 2, (words, ended.stderr)


def test_every_prompt_that_is_asked_is_sent(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(REMEMBERS, "utf-8")
    words = ["check", "agent", "--only", "166", "--protocol", "1", "--timeout", "50"]
    asked = ["--ask", "What is this?", "--ask", "Read {file}.", "--ask", "And now?"]
    ended = duologue(tmp_path, *words, *asked, "--", sys.executable, "agent.py", str(tmp_path / "prompts"))

    assert ended.returncode == 0, ended.stdout + ended.stderr
    prompts = (tmp_path / "prompts").read_text("utf-8").splitlines()
    assert "What is this?" in prompts
    assert prompts.count("And now?") == 1
    assert [each for each in prompts if each.startswith("Read ")] == [each for each in prompts if "notes.txt" in each]


def test_a_client_is_run_in_this_directory(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "plain_client.py", tmp_path / "client.py")
    words = ["check", "client", "--only", "13", "--protocol", "1", "--timeout", "50", "--verbose"]
    ended = duologue(tmp_path, *words, "--", sys.executable, "client.py", "hello", "{agent}")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "PASS          13  v1" in ended.stdout


def test_a_client_that_never_connects_fails_with_what_it_said(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('set MY_KEY first')", "{agent}"]
    ended = duologue(tmp_path, "check", "client", "--only", "13", "--junit", "check.xml", "--", *command)

    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "the client ended with the exit code 1 before it connected: set MY_KEY first" in ended.stdout
    assert "  the client could not be checked\n" in ended.stdout
    assert "no rule is broken" not in ended.stdout
    assert "set MY_KEY first" in (tmp_path / "check.xml").read_text("utf-8")


def test_an_agent_that_exits_at_once_fails_whatever_is_checked(tmp_path: Path) -> None:
    agent = [sys.executable, "-c", "import sys; sys.exit('set MY_KEY first')"]
    ended = duologue(tmp_path, "check", "agent", "--only", "172", "--", *agent)

    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "set MY_KEY first" in ended.stdout
    assert "  the agent could not be checked\n" in ended.stdout


def test_a_must_that_was_not_observed_fails_only_a_strict_check(tmp_path: Path) -> None:
    words = ["check", "agent", "--only", "172", "--protocol", "1", "--timeout", "50", "--junit", "check.xml"]
    agent = [sys.executable, str(EXAMPLES / "smallest_agent.py")]
    lenient = duologue(tmp_path, *words, "--", *agent)
    assert 'failures="0"' in (tmp_path / "check.xml").read_text("utf-8")
    strict = duologue(tmp_path, *words, "--strict", "--", *agent)

    assert (lenient.returncode, strict.returncode) == (0, 1), lenient.stdout + strict.stdout
    assert "1 NOT OBSERVED" in lenient.stdout
    assert 'failures="1"' in (tmp_path / "check.xml").read_text("utf-8")


@pytest.mark.parametrize("option", ["--junit", "--sarif", "--markdown", "--html", "--write-baseline"])
def test_a_file_that_cannot_be_written_is_found_before_the_check(tmp_path: Path, option: str) -> None:
    agent = [sys.executable, "-c", "open('started', 'w')"]
    ended = duologue(tmp_path, "check", "agent", "--only", "26", option, "missing/file", "--", *agent)

    assert ended.returncode == 2
    assert f"{option} missing/file: there is no directory missing" in ended.stderr
    assert not (tmp_path / "started").exists()


def test_the_progress_is_one_line_of_the_terminal_and_is_erased(tmp_path: Path) -> None:
    words = ["check", "agent", "--only", "10,11", "--protocol", "1", "--timeout", "50", "--jobs", "1"]
    with terminal(tmp_path, *words) as shown:
        shown.until("no rule is broken")

    before, _, after = shown.raw.partition(b"cases done: 1; last: ")
    line, _, _ = after.partition(b"cases done: 2; last: ")
    assert line.endswith(b"\r\x1b[K")
    assert b"\n" not in before + line
    assert b"\r\x1b[K" in after.removeprefix(line).partition(b"\n")[0]


def test_rules_are_listed_with_the_names_that_can_be_selected(tmp_path: Path) -> None:
    assert "  10  MUST   both    parse-error: A line that is not JSON" in duologue(tmp_path, "check", "rules").stdout
    ended = duologue(tmp_path, "check", "agent", "--only", "parse-eror")

    assert ended.returncode == 2
    assert "there is no rule 'parse-eror'; did you mean 'parse-error'?; `duologue check rules` lists" in ended.stderr


def test_a_person_gets_a_command_to_paste_and_reads_what_each_case_found(tmp_path: Path) -> None:
    with terminal(tmp_path, "check", "client", "--only", "13,15", "--protocol", "1") as shown:
        shown.until("Ctrl-C ends the check:\n")
        shown.until("/agent\n")
        [agent] = re.findall(r"^/.*/agent$", shown.text, re.MULTILINE)
        for case in (
            "one-turn: nothing to judge",
            "unknown-messages: rules kept: 1",
            "malformed-params: rule 15 FAIL: ",
        ):
            shown.until("start the agent, or open a new conversation with it")
            command = [sys.executable, str(EXAMPLES / "plain_client.py"), "hello", agent]
            subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
            shown.until(f"duologue check: {case}")
        shown.until("1 broken rules of level MUST")
        assert shown.wait() == 1
