"""`duologue chat`: on a terminal with line editing, on a dumb one, and with lines from a pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue.cli.chat.session_commands import MOST_OFFERED
from tests.cli.program import ODD_AGENT, PROGRAM, duologue, terminal

TERMINALS = pytest.mark.parametrize("kind", ["xterm", "dumb"])


def test_lines_of_a_pipe_are_prompts_and_stdout_is_what_the_agent_says(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "chat", stdin="/mode code\n\n:mode\n/think of it\n")

    assert (ended.returncode, ended.stdout) == (0, "The mode is `code`.\nI have thought about it.\n")
    assert "  mode = code  (ask, architect, code)" in ended.stderr
    assert ended.stderr.count("(end_turn, ") == 2


def test_our_own_commands_begin_with_a_colon_and_say_what_is_wrong(tmp_path: Path) -> None:
    lines = [
        ":help",
        ":hlep",
        ":nothing",
        ":set model echo-2",
        ":set",
        ":commands",
        ":usage",
        ":resume x",
        ":new",
        ":sessions",
    ]
    ended = duologue(tmp_path, "chat", stdin="\n".join([*lines, ":quit", "/echo never sent"]))

    assert (ended.returncode, ended.stdout) == (0, "")
    assert ":resume [ID]" in ended.stderr
    assert "unknown command :hlep; did you mean ':help'?" in ended.stderr
    assert "unknown command :nothing; `:help` lists the commands" in ended.stderr
    assert "  model = echo-2  (echo-1, echo-2)" in ended.stderr
    assert "  /tour  Show the main things in one turn" in ended.stderr
    assert "no session id begins with 'x'" in ended.stderr
    assert "switched to session " in ended.stderr


def test_the_cost_is_shown_with_the_usage_of_the_context(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "chat", stdin=":usage\n/usage\n:usage\n")

    assert "the agent has reported no usage so far\n" in ended.stderr
    assert "context: 53,000 of 200,000 tokens\n" in ended.stderr
    assert "session: 1,500 tokens, 0.045 USD in 1 turn\n" in ended.stderr


def test_servers_go_with_every_session_of_a_chat(tmp_path: Path) -> None:
    session_id = duologue(tmp_path, "run", "hello", "--json").stdout.partition('"session_id":"')[2].partition('"')[0]
    lines = ["/session", ":new", "/session", f":resume {session_id}", "/session", f":resume {session_id}", ":resume"]
    ended = duologue(tmp_path, "chat", "--mcp", "near=cat -u", stdin="\n".join(lines))

    assert ended.stdout.count("| MCP servers | near |") == 3
    assert ended.stderr.count("switched to session ") == 2
    assert "duologue: this session is already open here\n" in ended.stderr
    assert "duologue: `:resume` needs the id of a session; `:sessions` lists them\n" in ended.stderr


def test_a_new_session_of_a_chat_is_in_the_mode_that_was_asked_for(tmp_path: Path) -> None:
    options = ["--mode", "architect", "--set", "model=echo-2"]
    ended = duologue(tmp_path, "chat", *options, stdin=":mode code\n:new\n:set\n")

    shown = ended.stderr.partition("switched to session ")[2]
    assert "  mode = architect  (" in shown
    assert "  model = echo-2  (" in shown


def test_an_agent_without_sessions_here_says_so(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "chat", "--", *ODD_AGENT, "forgetful", stdin=":sessions\n", cwd=tmp_path)
    alone = duologue(tmp_path, "chat", "--", *ODD_AGENT, "plain", stdin=":sessions\n")

    assert "  s\n" in ended.stderr
    assert "  t\n" not in ended.stderr
    assert "cannot list its sessions" in alone.stderr


def test_a_turn_that_fails_does_not_end_the_conversation(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "chat", stdin="/error\n/echo still here\n")

    assert ended.returncode == 0
    assert (
        'duologue: the agent answered with an error: this error was asked for (-32603): {"asked": true}\n'
        in ended.stderr
    )
    assert "You said: still here" in ended.stdout


def test_an_agent_that_is_gone_ends_it(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "chat", stdin="/crash 3\n/echo never sent\n")

    assert (ended.returncode, ended.stdout) == (1, "Goodbye.")
    assert "exited with code 3" in ended.stderr


def test_files_that_are_mentioned_go_with_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("some text")
    ended = duologue(tmp_path, "chat", stdin="/echo look at @notes.txt, and @missing\n")

    assert ended.stdout.count("notes.txt`, 9 characters") == 1


def test_an_earlier_session_is_shown_again_and_goes_on(tmp_path: Path) -> None:
    duologue(tmp_path, "run", "/think of the sea")
    ended = duologue(tmp_path, "chat", "--continue", stdin="/echo more\n")

    assert "I have thought about it." in ended.stdout
    assert "> /think of the sea" in ended.stderr
    assert "You said: more" in ended.stdout


def test_an_agent_that_wants_a_login_says_by_which_methods(tmp_path: Path) -> None:
    locked = [*PROGRAM, "agent", "--login"]
    refused = duologue(tmp_path, "chat", "--", *locked)
    method = refused.stderr.partition("--login ")[2].partition(":")[0]
    let_in = duologue(tmp_path, "chat", "--login", method, "--", *locked, stdin="/think\n")

    assert refused.returncode == 7
    assert (let_in.returncode, let_in.stdout) == (0, "I have thought about it.\n")


@TERMINALS
def test_a_question_is_answered_and_remembered(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "chat", TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type("/write note.txt hello\r")
        console.until("2. [a] Always allow in this session: ")
        console.until("Your choice (")
        console.type("a\r")
        console.until("I wrote")
        console.until("(end_turn")
        console.type("/write note.txt hello\r")
        again = console.until("(end_turn")
        console.type(":quit\r")

        assert "Your choice" not in again
        assert console.wait() == 0


@TERMINALS
def test_ctrl_c_cancels_a_turn_and_the_conversation_goes_on(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "chat", TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type("/cancel-me\r")
        console.until("other: Wait to be cancelled")
        console.interrupt()
        console.until("(cancelled")
        console.type("/think\r")
        console.until("I have thought about it.")
        console.until("(end_turn")
        if kind == "xterm":
            console.until("›")  # before that, the key is lost
        console.type("\x04")

        assert console.wait() == 0


@TERMINALS
def test_updates_between_turns_are_shown(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "chat", TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type("/background 2\r")
        console.until("(end_turn")
        console.until("This came between turns.")
        console.type(":quit\r")

        assert console.wait() == 0


def test_commands_settings_and_files_are_completed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("some text")
    with terminal(tmp_path, "chat") as console:
        console.until("›")
        console.type("/thi")
        console.complete("/think")
        console.type(" of @no")
        console.complete("@notes.txt")
        console.type("\r")
        console.until("I have thought about it.")
        console.until("(end_turn")
        console.type(":mode arch")
        console.complete("architect")
        console.type("\r")
        console.until("mode = architect")
        console.type(":quit\r")

        assert console.wait() == 0


@TERMINALS
def test_a_prompt_may_have_several_lines(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "chat", TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type("/echo one\\\r")
        console.type("two\r")
        console.until("You said:")
        console.until("one")
        console.until("two")
        console.until("(end_turn")
        console.type(":quit\r")

        assert console.wait() == 0


def test_alt_enter_starts_a_new_line(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat") as console:
        console.until("›")
        console.type("/echo one\x1b\rtwo\r")
        console.until("You said:")
        console.until("two")
        console.until("(end_turn")
        console.type(":quit\r")

        assert console.wait() == 0
        assert console.text.count("(end_turn") == 1


@TERMINALS
def test_a_session_to_resume_is_chosen_by_its_title(tmp_path: Path, kind: str) -> None:
    assert duologue(tmp_path, "run", "/think of the sea").returncode == 0
    with terminal(tmp_path, "chat", TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type(":resume\r")
        console.until("1. /think of the sea")
        console.until("Your choice (")
        console.type("1\r")
        console.until("switched to session ")
        console.type(":quit\r")

        assert console.wait() == 0


def test_the_sessions_to_resume_are_limited_and_the_rest_is_counted(tmp_path: Path) -> None:
    duologue(tmp_path, "chat", stdin=":new\n".join(f"/echo {number}\n" for number in range(MOST_OFFERED + 2)))
    with terminal(tmp_path, "chat", TERM="dumb") as console:
        console.until("Ctrl-D exits.")
        console.type(":resume\r")
        console.until("2 more are not offered; `:sessions` lists all, `:resume ID` continues one")
        console.until(f"{MOST_OFFERED}. /echo 2")
        console.until("Your choice (")
        console.type("1\r")
        console.until("switched to session ")
        console.type(":quit\r")

        assert console.wait() == 0


def test_a_line_says_what_a_silent_agent_is_doing(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat") as console:
        console.until("Ctrl-D exits.")
        console.type("/cancel-me\r")
        console.until("running: Wait to be cancelled (")
        console.interrupt()
        console.until("(cancelled")
        console.type(":quit\r")

        assert console.wait() == 0


def test_the_agent_is_started_again_and_its_messages_and_log_are_shown_on_request(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat") as console:
        console.until("Connected to ")
        console.type(":reload\r")
        console.until("the agent was started again, and the session goes on")
        console.type(":stderr\r")
        console.until("stderr: on")
        console.type(":wire\r")
        console.until("wire: on")
        console.type("hello\r")
        console.until('  -> {"jsonrpc":"2.0"')
        console.until("(end_turn")
        console.type("\x04")
        assert console.wait() == 0
