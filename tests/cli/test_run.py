"""`duologue run` as scripts see it: what is on stdout, what on stderr, and the exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from duologue import connect
from duologue.cli.main import main
from tests.cli.program import ODD_AGENT, PROGRAM, duologue, environment


def events(ended: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_stdout_is_exactly_what_the_agent_says(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/think about tests")

    assert (ended.returncode, ended.stdout) == (0, "I have thought about it.\n")
    assert "This is about about tests. " in ended.stderr
    assert "end_turn" in ended.stderr


def test_messages_outside_of_the_turn_go_to_stdout_too(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "hi", "--", *ODD_AGENT, "early")

    assert (ended.returncode, ended.stdout) == (0, "before;during;")


def test_control_characters_reach_a_pipe_as_they_were_sent(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/echo \x1b[31mred\x07")

    assert "You said: \x1b[31mred\x07\n" in ended.stdout


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ("/refuse", 3),
        ("/max-tokens", 4),
        ("/max-requests", 4),
        ("/error", 1),
        ("/exception", 1),
        ("/crash 3", 1),
        ("/write note.txt hello", 5),
    ],
)
def test_the_exit_code_says_how_it_ended(tmp_path: Path, prompt: str, code: int) -> None:
    ended = duologue(tmp_path, "run", prompt)

    assert ended.returncode == code
    assert ended.stderr


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("silent", 9, "the agent sent no text\n(end_turn"),
        ("broken", 8, "duologue: "),
        ("newer", 8, "version"),
        ("locked", 7, "requires a login: who are you"),
    ],
)
def test_each_misbehaviour_of_an_agent_has_its_exit_code(tmp_path: Path, kind: str, code: int, message: str) -> None:
    ended = duologue(tmp_path, "run", "hi", "--", *ODD_AGENT, kind)

    assert (ended.returncode, ended.stdout) == (code, "")
    assert message in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "hi", "--mode", "sleep"], "unknown mode 'sleep'; available: ask, architect, code"),
        (["run", "hi", "--set", "colour=red"], "unknown setting 'colour'"),
        (["run", "hi", "--set", "model=big"], "model cannot be 'big'"),
        (["run", "hi", "--set", "numbers=maybe"], "true or false"),
        (["run", "hi", "--file", "absent.txt"], "no such file"),
        (["run", "hi", "--continue"], "no session in this directory"),
        (["run", "hi", "--session", "nowhere"], "no such session: nowhere"),
        (["run", "hi", "--image", "config.toml"], "not image; attach it as a file"),
        (["run", "hi", "--ask"], "--ask needs a terminal"),
        (["run", "-f", "-"], "the prompt is empty"),
    ],
)
def test_a_wrong_command_line_says_what_would_be_right(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "config.toml").touch()
    ended = duologue(tmp_path, *arguments)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "hi", "-f", "-"], "give either a prompt or `-f FILE`, not both"),
        (["run", "hi", "--"], "there is no command after"),
        (["run", "hi", "--agent", "builtin", "--", "cat"], "not both"),
        (["run", "hi", "--yes", "--deny"], "not allowed with"),
        (["run", "hi", "--timeout", "0"], "expected a positive number"),
        (["run", "hi", "--timeout", "soon"], "expected a positive number of seconds, not 'soon'"),
        (["run", "hi", "there"], "put the prompt in quotes"),
        (["run", "hi", "--colour"], "see `duologue run --help`"),
        (["--colour"], "see `duologue --help`"),
        (["sessions", "show"], "needs an argument"),
        (["doctor", "--", "x"], "accepts no command"),
    ],
)
def test_a_command_line_that_makes_no_sense_starts_nothing(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)

    assert left.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "hi", "--agent", "absent"], "unknown agent 'absent'; known agents: builtin"),
        (["run", "hi", "--set", "model"], "expected NAME=VALUE"),
        (["run", "hi", "--env", "=x"], "expected NAME=VALUE"),
        (["run", "hi", "--cwd", "absent"], "no such directory"),
        (["run", "hi", "--rules", "absent.toml"], "absent.toml"),
        (
            ["run", "hi", "--mcp", "absent.json"],
            "no file and no configured server has this name; expected NAME=COMMAND",
        ),
        (["run", "hi", "--mcp", "it=no-such-command"], "command 'no-such-command' was not found"),
        (["run", "hi", "--mcp", "it=/no/such/command"], "command '/no/such/command' was not found"),
        (["run", "hi", "--mcp", "it="], "expected NAME=COMMAND"),
        (["run", "hi", "--mcp", "it='"], "No closing quotation"),
        (
            ["run", "hi", "--mcp", "it=https://h", "--", *ODD_AGENT, "plain"],
            "cannot reach the MCP server 'it' over HTTP",
        ),
        (["run", "-f", "absent.txt"], "cannot read the prompt from absent.txt: No such file"),
    ],
)
def test_impossible_arguments_are_rejected_before_an_agent_is_started(
    tmp_path: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    code = main(arguments)

    assert code == 2
    assert message in capsys.readouterr().err


def test_a_command_that_does_not_exist_is_an_error_of_the_agent(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "hi", "--", "no-such-agent")

    assert ended.returncode == 1
    assert "no-such-agent" in ended.stderr


def test_the_prompt_comes_from_stdin_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("/echo from a file")

    assert "You said: from stdin" in duologue(tmp_path, "run", "-f", "-", stdin="/echo from stdin").stdout
    assert "You said: from a file" in duologue(tmp_path, "run", "-f", "prompt.txt").stdout


def test_a_prompt_that_is_no_text_is_not_sent(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "-f", "-", stdin=b"\xff\xfe")

    assert (ended.returncode, ended.stderr) == (2, "duologue: the prompt is not UTF-8\n")


def test_files_and_images_are_attached_to_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some text")
    (tmp_path / "b.png").write_bytes(b"\x89PNG")
    ended = duologue(tmp_path, "run", "/echo look", "--file", "a.txt", "--image", "b.png")

    assert ended.returncode == 0
    assert "a.txt" in ended.stdout
    assert "image/png" in ended.stdout


def test_mode_and_settings_are_changed_first(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/config", "--mode", "code", "--set", "model=echo-2", "--set", "numbers=false")

    assert "| `mode` | `code` |" in ended.stdout
    assert "| `model` | `echo-2` |" in ended.stdout
    assert "| `numbers` | `False` |" in ended.stdout


def test_variables_reach_the_agent(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "hi", "--env", "GREETING=good day", "--", *ODD_AGENT, "env")

    assert ended.stdout == "good day"


def test_an_mcp_server_is_offered_to_the_agent(tmp_path: Path) -> None:
    (tmp_path / "servers.json").write_text('{"mcpServers": {"remote": {"url": "http://127.0.0.1:9/mcp"}}}')
    ended = duologue(tmp_path, "run", "/session", "--mcp", "near=cat -u", "--mcp", "servers.json")

    assert "near, remote" in ended.stdout


def test_an_mcp_server_of_the_configuration_is_offered_by_its_name(tmp_path: Path) -> None:
    config = tmp_path / "config" / "duologue" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[mcp_servers.mine]\ncommand = "cat"\n[mcp_servers.other]\ncommand = "cat"\n')
    ended = duologue(tmp_path, "run", "/session", "--mcp", "mine")

    assert "| MCP servers | mine |" in ended.stdout


def test_a_session_goes_on_by_its_id_and_as_the_newest_of_its_directory(tmp_path: Path) -> None:
    first = events(duologue(tmp_path, "run", "/title First", "--json"))[0]["session_id"]
    again = events(duologue(tmp_path, "run", "/session", "--json", "--session", first))
    newest = events(duologue(tmp_path, "run", "/session", "--json", "--continue"))

    assert (again[0]["session_id"], newest[0]["session_id"]) == (first, first)
    assert "First" in "".join(event["text"] for event in newest if event["event"] == "Text")


def test_the_newest_session_here_is_none_of_another_directory(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "hi", "--continue", "--", *ODD_AGENT, "forgetful")

    assert (ended.returncode, ended.stdout) == (0, "this is the older one, here")


def test_words_of_the_agent_in_an_error_are_marked_as_such(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/error 400")

    assert (
        ended.stderr == 'duologue: the agent answered with an error: this error was asked for (400): {"asked": true}\n'
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["true"], "'true' exited with code 0 before it answered `initialize`; is it an ACP agent? Many need a flag"),
        (["echo", "hello"], "it printed 1 line that is not the protocol, beginning with b'hello'; is it an ACP agent?"),
        (["sh", "-c", "echo no key >&2; exit 3"], "'sh' exited with code 3 before it answered `initialize`\nno key\n"),
        ([sys.executable, "empty.py"], "'empty.py' exited with code 0 before it answered `initialize`; is empty.py an"),
        ([sys.executable, "empty.py"], "ends with `agent.run()` or `duologue.run(answer)`\n"),
        (["./gemini"], "; `gemini --acp` starts it as an ACP agent\n"),
    ],
)
def test_a_command_that_exits_at_once_is_reported_with_a_hint(tmp_path: Path, command: list[str], message: str) -> None:
    (tmp_path / "empty.py").touch()
    (tmp_path / "gemini").write_text("#!/bin/sh\n")
    (tmp_path / "gemini").chmod(0o700)
    ended = duologue(tmp_path, "run", "hi", "--", *command)

    assert ended.returncode == 1
    assert message in ended.stderr


# --- permissions


@pytest.mark.parametrize(
    ("flag", "code", "is_written"), [("--yes", 0, True), ("--read-only", 5, False), ("--deny", 5, False)]
)
def test_flags_say_what_is_permitted(tmp_path: Path, flag: str, code: int, is_written: bool) -> None:
    ended = duologue(tmp_path, "run", "/write note.txt hello", flag)

    assert ended.returncode == code
    assert (tmp_path / "note.txt").exists() is is_written
    assert ("not allowed: " in ended.stderr) is not is_written


def test_an_action_without_a_permission_request_is_denied_and_counted_too(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/write note.txt hello", "--mode", "code", "--read-only")

    assert ended.returncode == 5
    assert "not allowed: write " in ended.stderr
    assert not (tmp_path / "note.txt").exists()


def test_rules_of_a_file_decide(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[permissions]\nedit = { "*.txt" = "allow", "*" = "reject" }\n')
    rules.chmod(0o600)
    work = tmp_path / "work"
    work.mkdir()

    def write(name: str) -> int:
        return duologue(tmp_path, "run", f"/write {name} hello", "--rules", str(rules), cwd=work).returncode

    assert (write("note.txt"), write("note.md")) == (0, 5)
    assert [path.name for path in work.iterdir()] == ["note.txt"]


def test_rules_of_the_configuration_hold_where_nothing_else_is_said(tmp_path: Path) -> None:
    config = tmp_path / "config" / "duologue" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[permissions]\nedit = "allow"\n')
    config.chmod(0o600)
    work = tmp_path / "work"
    work.mkdir()

    assert duologue(tmp_path, "run", "/write note.txt hello", cwd=work).returncode == 0
    assert duologue(tmp_path, "run", "/write note.txt hello", "--deny", cwd=work).returncode == 5


# --- what is shown in addition to the answer


def test_a_change_is_shown_as_a_unified_diff(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("one\ntwo\n")
    ended = duologue(tmp_path, "run", "/edit note.txt two three", "--yes")

    assert (
        "    --- a/note.txt\n    +++ b/note.txt\n    @@ -1,2 +1,2 @@\n     one\n    -two\n    +three\n" in ended.stderr
    )
    assert ended.stderr.count("+three") == 1


def test_the_output_of_a_command_is_shown_after_it_was_released(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/run sh -c 'echo out; exit 4'", "--yes")

    assert "    out\n" in ended.stderr
    assert "    exited with code 4\n" in ended.stderr


def test_a_plan_is_shown_whole_and_then_step_by_step(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/plan")

    assert ended.stderr.startswith("  ◐ Look around\n  ☐ Do the work\n  ☐ Check the result\n  ☑ Look around\n")
    assert ended.stderr.count("Look around") == 2


def test_the_closing_line_has_tokens_and_cost(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/usage")

    assert ended.stderr.splitlines()[-1].startswith("(end_turn, ")
    assert ended.stderr.endswith(" s, 1,500 tokens, 0.045 USD)\n")


def test_the_usage_of_a_session_adds_up_over_runs(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "-s", "work", "/usage")
    ended = duologue(tmp_path, "run", "-s", "work", "/usage", "--json")
    end = json.loads(ended.stdout.splitlines()[-1])
    listed = json.loads(duologue(tmp_path, "sessions", "list", "--json").stdout.splitlines()[0])

    assert (end["usage"]["total"], end["usage"]["provenance"], end["usage"]["cost"]) == (
        1_500,
        "reported_per_turn",
        0.045,
    )
    assert (end["session_usage"]["total"], end["session_usage"]["turns"], end["cost"]) == (3_000, 2, 0.09)
    assert listed["usage"] == end["session_usage"]
    assert duologue(tmp_path, "run", "-s", "work", "/usage").stderr.endswith(
        " s, 1,500 tokens, 0.045 USD; session so far: 4,500 tokens, 0.135 USD)\n"
    )
    assert "(4,500 tokens, 0.135 USD)\n" in duologue(tmp_path, "sessions", "list").stdout
    shown = duologue(tmp_path, "sessions", "show", listed["session_id"]).stdout
    assert "Used: 4,500 tokens, 0.135 USD in 3 turns\n" in shown


# --- JSON


def test_json_has_one_event_per_line_with_the_frame_it_came_in(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "/write note.txt hello", "--json", "--yes")
    received = events(ended)
    kinds = [event["event"] for event in received]

    assert (ended.returncode, ended.stderr) == (0, "")
    assert (kinds[0], kinds[-1]) == ("Session", "End")
    assert {"ToolCall", "Text"} <= set(kinds)
    from_agent = [event for event in received if event["event"] in ("ToolCall", "Text")]
    assert {event["raw"]["method"] for event in from_agent} == {"session/update", "session/request_permission"}
    assert received[-1]["stop_reason"] == "end_turn"
    assert received[-1]["code"] == 0


def test_json_tells_of_denials_and_errors(tmp_path: Path) -> None:
    denied = events(duologue(tmp_path, "run", "/write note.txt hello", "--json"))
    failed = duologue(tmp_path, "run", "/error", "--json")

    assert [event["what"] for event in denied if event["event"] == "Denied"] == [
        f"edit {tmp_path.resolve() / 'note.txt'} (Write note.txt)"
    ]
    assert (denied[-1]["event"], denied[-1]["code"]) == ("End", 5)
    assert (events(failed)[-1]["event"], events(failed)[-1]["code"]) == ("Error", 1)
    assert failed.stderr.startswith("duologue: ")


# --- time


@pytest.mark.parametrize("kind", ["deaf", "stuck"])
def test_the_timeout_covers_the_start_and_an_agent_that_never_ends(tmp_path: Path, kind: str) -> None:
    began = time.monotonic()
    ended = duologue(tmp_path, "run", "hi", "--timeout", "1.5", "--", *ODD_AGENT, kind)

    assert ended.returncode == 6
    assert "the agent did not finish within 1.5 s" in ended.stderr
    assert time.monotonic() - began < 40


def test_an_agent_that_ignores_ctrl_c_is_abandoned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reading, writing = os.pipe()

    def interrupt() -> None:
        with open(reading) as out:
            out.readline()
            os.kill(os.getpid(), signal.SIGINT)
            out.read()

    monkeypatch.setitem(connect.__kwdefaults__ or {}, "cancel_timeout", 0.1)
    console = threading.Thread(target=interrupt)
    console.start()
    with open(writing, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        code = main(["run", "hi", "--cwd", str(tmp_path), "--", *ODD_AGENT, "stuck"])
    console.join()

    assert code == 130


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_leaves_ends_the_run(tmp_path: Path, options: list[str]) -> None:
    process = subprocess.Popen(
        [*PROGRAM, "run", "/stream 100000", *options],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr is not None

        assert b"Traceback" not in process.stderr.read()
        assert process.wait(20) == 141


RULES_ADVICE = (
    "  --rules FILE  only what the file lists, which has mode 0600 and is outside of the directory; for this:\n"
)


def test_a_denied_run_prints_the_rules_that_allow_it(tmp_path: Path) -> None:
    work, rules = tmp_path / "work", tmp_path / "rules.toml"
    work.mkdir()
    denied = duologue(tmp_path, "run", "/tour", cwd=work)

    assert denied.returncode == 5
    assert "to allow what was denied, use\n  --yes         all commands" in denied.stderr
    lines = denied.stderr.partition(RULES_ADVICE)[2]
    rules.write_text(textwrap.dedent(lines))
    rules.chmod(0o600)
    allowed = duologue(tmp_path, "run", "/tour", "--rules", str(rules), cwd=work)

    assert (allowed.returncode, "denied" in allowed.stderr) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["/write a.txt b", "--read-only"], 'use instead of `--read-only`\n  --yes  .*"a.txt" = "allow"\n$'),
        (
            ["/write a.txt b", "--rules", "{rules}"],
            'use\n  [^ ]*, with in addition\n .*edit]\n    "a.txt" = "allow"\n$',
        ),
        (["/run sh -c 'ls; ls'"], r"use\n  --yes  [^\n]*\n$"),
        (["/write ../a.txt b"], r'use\n  --rules FILE  .*edit]\n    "/[^ ]*a.txt" = "allow"\n$'),
        (
            ["/write ../a.txt b", "--yes"],
            "`--yes` covers only files inside .*; `--cwd DIR` chooses another directory\n$",
        ),
        (["/permission"], 'use\n  --yes .*other = "allow"\n$'),
    ],
)
def test_a_denied_run_says_what_would_allow_it(tmp_path: Path, arguments: list[str], expected: str) -> None:
    (rules := tmp_path / "rules.toml").write_text('[permissions]\nread = "allow"\n')
    rules.chmod(0o600)
    (work := tmp_path / "work").mkdir()
    ended = duologue(tmp_path, "run", *(word.format(rules=rules) for word in arguments), cwd=work)

    assert ended.returncode == 5
    assert re.search(expected, ended.stderr, re.DOTALL), ended.stderr


def test_an_agent_that_fails_because_it_was_denied_something_ends_with_the_code_of_a_denial(tmp_path: Path) -> None:
    agent = [sys.executable, str(Path(__file__).with_name("acting_agent.py"))]
    denied = duologue(tmp_path, "run", "write", "--deny", "--", *agent)
    failed = duologue(tmp_path, "run", "'", "--yes", "--", *agent)

    assert (denied.returncode, failed.returncode) == (5, 1)
    assert "the agent answered with an error: not permitted" in denied.stderr
    assert "to allow what was denied, use instead of `--deny`" in denied.stderr
    assert "to allow" not in failed.stderr
