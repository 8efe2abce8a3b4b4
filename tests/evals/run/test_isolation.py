"""A trial sees nothing of the user, of other trials or of the suite, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import duologue
from duologue import Agent, Turn
from duologue.evals.exceptions import EvalError
from duologue.evals.record.trial_record import TrialRecord
from duologue.evals.run import bubblewrap
from duologue.evals.run.credentials import CredentialFile, Credentials
from duologue.evals.run.scratch import Scratch
from duologue.transports.base import Transport
from tests.evals.run.obedient_agent import orphan_script
from tests.evals.run.suites import python_agent, run_cases

AGENT = python_agent("obedient_agent")

needs_bubblewrap = pytest.mark.skipif(bool(bubblewrap.obstacle()), reason=bubblewrap.obstacle() or "it works")


def case(*steps: str, more: str = "") -> str:
    """Return a case with one prompt."""
    prompt = json.dumps("\n".join(steps))
    return f'[[cases]]\nid = "it"\nprompts = [{prompt}]\n{more}\n'


def case_with_user(folder: Path, command: str, *steps: str) -> str:
    """Return a case whose simulated user runs a shell command first, and then wants tea."""
    (folder / "lines").write_text("say tea\nDONE\n")
    user = json.dumps(shlex.join(["sh", "-c", f"{command}; exec {AGENT} --lines {folder}/lines"]))
    return case(*(steps or ("say x",)), more=f'simulated_user = {{ agent = {user}, persona = "You want tea." }}')


async def record_of(folder: Path, text: str, **more: object) -> TrialRecord:
    """Run a case once, and return its record."""
    _, run = await run_cases(folder, text, agents={"it": AGENT}, **more)
    return next(iter(run.records()))


def make_repository(path: Path) -> Path:
    """Make a Git repository with two commits, of which `v1` names the first."""
    path.mkdir()
    author = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for role in ("AUTHOR", "COMMITTER"):
        author |= {f"GIT_{role}_NAME": "t", f"GIT_{role}_EMAIL": "t@localhost"}

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=path, check=True, capture_output=True, env={**os.environ, **author})

    git("init", "--quiet")
    (path / "code.txt").write_text("old\n")
    (path / ".gitattributes").write_text("tests export-ignore\n")
    (path / "tests").mkdir()
    (path / "tests" / "test.txt").write_text("hidden from archives\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    git("tag", "v1")
    (path / "code.txt").write_text("new\n")
    git("commit", "--quiet", "-am", "two")
    (path / "code.txt").write_text("not committed\n")
    return path


def processes_with(mark: str) -> list[str]:
    """Return the command lines of processes that have this text as an argument of its own."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
            found += [" ".join(words)] if mark in words else []
    return found


# --- environment


async def test_an_agent_gets_a_home_of_its_own_and_no_other_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-1234567890abcdef")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere")
    record = await record_of(tmp_path, case("names", "env HOME XDG_CONFIG_HOME TMPDIR CODEX_HOME CLAUDE_CONFIG_DIR"))

    names, values = (
        json.loads(each) for each in record.result().output.replace("][", "]\n[").replace("]{", "]\n{").split("\n")
    )
    assert "SOME_API_KEY" not in names
    assert all("duologue-trial-" in value for value in values.values())
    assert values["HOME"] != os.environ.get("HOME")


async def test_a_simulated_user_has_directories_and_credentials_of_its_own(tmp_path: Path) -> None:
    names = ["HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "TMPDIR", "CODEX_HOME", "CLAUDE_CONFIG_DIR"]
    key = tmp_path / "key"
    key.write_text("not a secret")
    text = case_with_user(tmp_path, f"(env; cat $HOME/.key) >{tmp_path}/seen", f"env {' '.join(names)}")
    record = await record_of(tmp_path, text, options={"credentials": (CredentialFile(key, ".key"),)})

    agent = json.loads(next(step.text for step in record.trajectory() if step.type == "message"))
    *lines, last = (tmp_path / "seen").read_text().splitlines()
    user = {line.partition("=")[0]: line.partition("=")[2] for line in lines}
    assert last == "not a secret"
    for name in names:
        assert "duologue-trial-" in user[name]
        assert not Path(user[name]).is_relative_to(agent[name])


async def test_two_trials_do_not_see_the_home_of_each_other(tmp_path: Path) -> None:
    steps = case("shell ls -A $HOME/mark 2>/dev/null | wc -l", "write $HOME/mark/x 1")
    _, run = await run_cases(tmp_path, steps, agents={"it": AGENT}, trials=2)

    assert [record.result().output.strip() for record in run.records()] == ["0", "0"]


async def test_a_named_variable_reaches_the_agent_and_is_recorded_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "quite-plain-words-4711"
    monkeypatch.setenv("PLAIN_NAME", secret)
    steps = ("env PLAIN_NAME", "write leak.txt value=$PLAIN_NAME", "write $HOME/$PLAIN_NAME x")
    text = case(*steps, more='graders = [{ type = "file", path = "leak.txt" }]')
    record = await record_of(tmp_path, text, options={"env": ("PLAIN_NAME",)})

    assert record.manifest().env == ["PLAIN_NAME"]
    found = [path for path in record.directory.rglob("*") if path.is_file() and secret in path.read_text()]
    assert found == []
    assert "value=" in record.patch()
    assert len(record.result().writes) == 1


async def test_a_secret_that_is_said_in_pieces_is_in_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "quite-plain-words-4711"
    monkeypatch.setenv("PLAIN_NAME", secret)
    record = await record_of(tmp_path, case("pieces it is $PLAIN_NAME"), options={"env": ("PLAIN_NAME",)})

    (message,) = (step.text for step in record.trajectory() if step.type == "message")
    assert message.startswith("it is ")
    for path in (record.trajectory_file, record.result_file):
        assert secret not in path.read_text()


async def test_a_case_may_name_variables_and_one_that_is_not_set_is_an_error_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="NOT_SET_ANYWHERE"):
        await run_cases(tmp_path, case("say x", more='env = ["NOT_SET_ANYWHERE"]'), agents={"it": AGENT})

    assert not (tmp_path / "run" / "trials").exists()


async def test_a_credential_file_is_copied_read_only_and_recorded_nowhere(tmp_path: Path) -> None:
    secret = "token-abcdefghijklmnop"
    source = tmp_path / "auth.json"
    source.write_text(json.dumps({"tokens": {"access": secret}, "user": "ada"}))
    file = CredentialFile(source, ".codex/auth.json")
    steps = case("shell stat -c %a $CODEX_HOME/auth.json", "read $CODEX_HOME/auth.json")
    record = await record_of(tmp_path, steps, options={"credentials": (file,)})

    assert record.result().output.startswith("400\n")
    assert "ada" in record.result().output
    assert record.manifest().credentials == [".codex/auth.json"]
    assert secret not in "".join(path.read_text() for path in record.directory.rglob("*") if path.is_file())
    assert "HOME/.codex/auth.json" not in record.result().writes


async def test_a_credential_file_that_the_agent_wrote_again_is_listed(tmp_path: Path) -> None:
    source = tmp_path / "auth.json"
    source.write_text("{}")
    steps = case("shell cd $CODEX_HOME; echo '{ }' >new; mv -f new auth.json", "say x")
    options = {"credentials": (CredentialFile(source, ".codex/auth.json"), CredentialFile(source, ".other"))}
    record = await record_of(tmp_path, steps, options=options)

    assert record.result().writes == ["HOME/.codex/auth.json"]
    assert source.read_text() == "{}"


@pytest.mark.parametrize(
    ("more", "kind"), [("", "sandbox_failed"), ('env = ["OTHER_NAME"]', "harness_failed")], ids=["copied", "read"]
)
async def test_the_reason_of_a_trial_that_broke_has_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, kind: str
) -> None:
    secret = "quite-plain-words-4711"
    monkeypatch.setenv("PLAIN_NAME", secret)
    monkeypatch.setenv("OTHER_NAME", "other words")
    source = tmp_path / secret / "key"
    source.parent.mkdir()
    source.write_text("key")
    # The first trial removes the file that the second one needs.
    options = {"retries": 0, "env": ("PLAIN_NAME",), "credentials": (CredentialFile(source, ".key"),)}
    text = case(f"shell rm {source}", more=more)
    _, run = await run_cases(tmp_path, text, agents={"it": AGENT}, trials=2, options=options)

    first, second = run.records()
    outcome = second.result().outcome
    assert (first.result().outcome.kind, outcome.kind) == ("completed", kind)
    assert "/key" in outcome.detail
    assert secret not in second.result_file.read_text()


def test_a_credential_file_outside_of_home_needs_a_place(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("x")

    assert CredentialFile.parse(f"{tmp_path}/key:.agent/key").target == ".agent/key"
    with pytest.raises(EvalError, match="say where the agent looks for it"):
        CredentialFile.parse(f"{tmp_path}/key")
    with pytest.raises(EvalError, match="below the home"):
        CredentialFile.parse(f"{tmp_path}/key:../key")
    with pytest.raises(EvalError, match="no credential file"):
        CredentialFile.parse(f"{tmp_path}/absent")


def test_secrets_are_removed_from_texts_of_any_kind(tmp_path: Path) -> None:
    source = tmp_path / "key.txt"
    source.write_text("key = abcdefghijklmnopqrstuv\n")
    credentials = Credentials(files=[CredentialFile(source, ".key")])

    assert credentials.remove_from_bytes(b"x abcdefghijklmnopqrstuv y") == b"x [removed] y"
    assert "abcdefghijklmnopqrstuv" not in credentials.removed_from("x abcdefghijklmnopqrstuv y")


def test_the_lines_of_a_private_key_are_removed_however_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["MIIEvFirstLineOfTheKey0123456789", "SecondLineOfTheKey987654321"]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----", ""])
    source = tmp_path / "account.json"
    source.write_text(json.dumps({"private_key": key}))
    monkeypatch.setenv("PLAIN_NAME", key)

    for credentials in (Credentials(files=[CredentialFile(source, ".account")]), Credentials(["PLAIN_NAME"])):
        for text in (key, json.dumps(key), key.replace("\n", "\r\n"), key.replace("\n", "\n+")):
            masked = credentials.remove_from_bytes(text.encode()).decode() + credentials.removed_from(text)
            assert [line for line in lines if line in masked] == []


# --- workspaces


async def test_a_git_source_becomes_a_new_repository_of_the_ref(tmp_path: Path) -> None:
    source = make_repository(tmp_path / "source")
    steps = ("read code.txt", "list", "shell git log --oneline | wc -l", "write code.txt changed")
    text = case(*steps, more=f'workspace = {{ source = "{source}", ref = "v1" }}')
    record = await record_of(tmp_path, text)

    base, output = record.manifest().workspace, record.result().output
    assert output.split() == ["old", ".git", ".gitattributes", "code.txt", "tests1"]
    assert (base.isolation, len(base.commit), base.source) == ("archive", 40, str(source))
    assert "-old" in record.patch()
    assert "+changed" in record.patch()
    assert (source / "code.txt").read_text() == "not committed\n"


async def test_a_copy_has_what_is_not_committed(tmp_path: Path) -> None:
    source = make_repository(tmp_path / "source")
    text = case("read code.txt", "delete code.txt", more=f'workspace = {{ source = "{source}", isolation = "copy" }}')
    record = await record_of(tmp_path, text)

    assert record.result().output == "not committed\n"
    assert "-not committed" in record.patch()
    assert (source / "code.txt").exists()


async def test_a_worktree_is_removed_from_its_source(tmp_path: Path) -> None:
    source = make_repository(tmp_path / "source")
    text = case("read code.txt", more=f'workspace = {{ source = "{source}", isolation = "worktree" }}')
    record = await record_of(tmp_path, text)

    assert record.result().output == "new\n"
    assert list((source / ".git" / "worktrees").glob("*")) == []


async def test_an_agent_that_removes_the_source_of_its_worktree_does_not_stop_the_run(
    tmp_path: Path, leftovers: Callable[[], list[str]]
) -> None:
    source = make_repository(tmp_path / "source")
    text = case(f"shell rm -rf {source}", more=f'workspace = {{ source = "{source}", isolation = "worktree" }}')
    record = await record_of(tmp_path, text, options={"retries": 0})

    assert not source.exists()
    assert record.result().outcome.kind == "completed"
    assert leftovers() == []


async def test_a_ref_that_does_not_exist_is_a_failure_of_the_sandbox(tmp_path: Path) -> None:
    source = make_repository(tmp_path / "source")
    text = case("say x", more=f'workspace = {{ source = "{source}", ref = "v9" }}')
    record = await record_of(tmp_path, text, options={"retries": 0})

    assert record.result().outcome.kind == "sandbox_failed"


async def test_git_settings_of_the_agent_run_no_program_of_ours(tmp_path: Path) -> None:
    source = make_repository(tmp_path / "source")
    trap = tmp_path / "trapped"
    steps = (
        f"shell git config core.fsmonitor 'touch {trap}'",
        f"shell git config filter.x.clean 'touch {trap}; cat'",
        "write .gitattributes * filter=x",
        "write code.txt changed",
    )
    text = case(*steps, more=f'workspace = {{ source = "{source}" }}')
    record = await record_of(tmp_path, text)

    assert "+changed" in record.patch()
    assert not trap.exists()


async def test_odd_modes_and_kinds_of_files_in_the_workspace_do_not_stop_the_record(
    tmp_path: Path, leftovers: Callable[[], list[str]]
) -> None:
    steps = ("shell mkdir locked && touch locked/x && chmod 000 locked && mkfifo pipe && ln -s /etc/passwd link",)
    text = case(*steps, "write ok.txt ok", more='graders = [{ type = "command", command = ["test", "-e", "ok.txt"] }]')
    record = await record_of(tmp_path, text)

    grades = record.grades()
    assert grades is not None
    assert grades.passed is True
    assert not (record.workspace_directory / "pipe").exists()
    assert leftovers() == []


async def test_files_of_a_case_do_not_follow_links_out_of_the_workspace(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "out").symlink_to(tmp_path)
    more = f'workspace = {{ source = "{source}" }}\nfiles = [{{ path = "out/x", text = "no" }}]'
    record = await record_of(tmp_path, case("say x", more=more), options={"retries": 0})

    assert "leads out of the workspace" in record.result().outcome.detail
    assert not (tmp_path / "x").exists()


async def test_directories_of_a_case_replace_links_of_the_source_and_do_not_follow_them(tmp_path: Path) -> None:
    victim, source, overlay = tmp_path / "victim", tmp_path / "source", tmp_path / "suite" / "overlay"
    for folder in (victim, source / "d" / "plain", overlay / "linked" / "deep", overlay / "plain"):
        folder.mkdir(parents=True)
    (victim / "kept").write_text("untouched")
    (source / "d" / "linked").symlink_to(victim)
    (source / "d" / "plain" / "file").symlink_to(victim / "kept")
    (source / "d" / "other").symlink_to(victim)
    (overlay / "linked" / "deep" / "x").write_text("new")
    (overlay / "plain" / "file").write_text("new")
    (overlay / "other").symlink_to("plain")
    more = f'workspace = {{ source = "{source}" }}\nfiles = [{{ path = "d", source = "overlay" }}]'
    steps = ("read d/linked/deep/x", "read d/plain/file", "read d/other/file")
    record = await record_of(tmp_path, case(*steps, more=more), options={"retries": 0})

    assert (record.result().outcome.detail, record.result().output) == ("", "newnewnew")
    assert [(each.name, each.read_text()) for each in victim.iterdir()] == [("kept", "untouched")]
    assert (source / "d" / "linked").is_symlink()


async def test_a_failure_of_an_unknown_kind_is_the_outcome_of_its_trial_and_others_are_run(tmp_path: Path) -> None:
    echo = Agent("echo")

    @echo.on_prompt
    async def answer(turn: Turn) -> None:
        await turn.say("x")

    class Flaky:
        """Serves the start-up check and the second trial, and fails in the first."""

        served = 0

        def serve(self, transport: Transport, /) -> Coroutine[Any, Any, None]:
            self.served += 1
            if self.served == 2:
                raise RuntimeError("no agent \udcff today")
            return echo.serve(transport)

    _, run = await run_cases(tmp_path, case("say x"), agents={"it": Flaky()}, trials=2, options={"retries": 0})

    first, second = (record.result().outcome for record in run.records())
    assert (first.kind, first.reason, first.detail) == ("harness_failed", "RuntimeError", r"no agent \udcff today")
    assert second.kind == "completed"


# --- what is left


async def test_the_record_lists_files_written_in_home_and_in_the_temporary_directory(tmp_path: Path) -> None:
    record = await record_of(tmp_path, case("write $HOME/.agent/log 1", "write $TMPDIR/x 2", "write inside 3"))

    assert record.result().writes == ["HOME/.agent/log", "TMPDIR/x"]


async def test_a_file_name_that_is_not_utf8_is_recorded_with_its_bytes_escaped(tmp_path: Path) -> None:
    record = await record_of(tmp_path, case(r"shell touch $HOME/a$(printf '\377')b", "say x"))

    assert record.result().outcome.kind == "completed"
    assert record.result().writes == [r"HOME/a\xffb"]


@pytest.mark.fault("TRI-03")
async def test_a_process_that_the_agent_left_behind_is_named_and_ended(tmp_path: Path) -> None:
    record = await record_of(tmp_path, case(f"orphan {tmp_path}", "say x"))

    (line,) = record.result().left_processes
    assert line.endswith(str(tmp_path))
    assert processes_with(str(tmp_path)) == []


@pytest.mark.parametrize("sandbox", ["none", pytest.param("bwrap", marks=needs_bubblewrap)])
@pytest.mark.fault("TRI-03")
async def test_a_process_that_a_command_of_our_terminals_left_behind_is_ended(tmp_path: Path, sandbox: str) -> None:
    command = shlex.join([sys.executable, "-c", orphan_script(str(tmp_path))])
    text = case(f"terminal {command}", "terminal echo and a command later", more='on_ask = "allow"')
    record = await record_of(tmp_path, text, options={"sandbox": sandbox})

    assert record.result().output == "0and a command later\n0"
    assert processes_with(str(tmp_path)) == []
    # What is confined has ended before it could be named.
    assert [line.endswith(str(tmp_path)) for line in record.result().left_processes] == [True] * (sandbox == "none")


async def test_a_command_of_our_terminals_that_does_not_exist_is_an_error_of_its_start(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    steps = ("terminal no-such-program", "terminal ./no-such-file", "write plain x", "terminal ./plain")
    record = await record_of(tmp_path, case(*steps, more='on_ask = "allow"'))

    messages = ("no command 'no-such-program'", "no such file: './no-such-file'", "'./plain' cannot be run")
    assert [message for message in messages if message not in record.result().output] == []


@pytest.mark.fault("TRI-03")
async def test_a_process_that_a_grader_left_behind_is_ended(tmp_path: Path) -> None:
    grader = json.dumps([sys.executable, "-c", orphan_script(str(tmp_path))])
    record = await record_of(
        tmp_path, case("say x", more=f'graders = [{{ type = "command", command = {grader} }}]'), options={"retries": 0}
    )

    grades = record.grades()
    assert grades is not None
    assert (grades.passed, grades.errors) == (True, [])
    assert processes_with(str(tmp_path)) == []


@needs_bubblewrap
async def test_a_confined_agent_writes_in_its_own_directories_only(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    steps = (f"write {outside} no", "write inside.txt yes", "write $HOME/x yes", "read inside.txt")
    record = await record_of(tmp_path, case(*steps), options={"sandbox": "bwrap"})

    assert record.result().output == "cannot write: Read-only file system; yes"
    assert not outside.exists()
    assert "HOME/x" in record.result().writes
    assert record.result().left_processes == []
    workspace = record.manifest().workspace
    assert (workspace.sandbox, workspace.is_watched) == ("bwrap", True)


@needs_bubblewrap
async def test_an_agent_is_confined_in_the_start_up_check_too(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    agent = ["sh", "-c", f"touch {outside}; exec {AGENT}"]
    end, _ = await run_cases(tmp_path, case("say x"), agents={"it": agent}, options={"sandbox": "bwrap"})

    assert (end.progress.done, end.progress.missing) == (1, 0)
    assert not outside.exists()


@needs_bubblewrap
async def test_a_simulated_user_is_confined_too(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    record = await record_of(tmp_path, case_with_user(tmp_path, f"touch {outside}"), options={"sandbox": "bwrap"})

    assert (record.result().outcome.kind, record.result().output) == ("completed", "tea")
    assert not outside.exists()


@needs_bubblewrap
async def test_a_simulated_user_and_commands_of_terminals_are_confined_also_if_the_agent_cannot_be(
    tmp_path: Path,
) -> None:
    agent = Agent("runs")

    @agent.on_prompt
    async def answer(turn: Turn) -> None:
        done = await turn.run("touch", str(tmp_path / "by-command"))
        await turn.say(f"{turn.text} {done.output}")

    text = case_with_user(tmp_path, f"touch {tmp_path}/by-user") + 'on_ask = "allow"'
    end, run = await run_cases(tmp_path, text, agents={"it": agent}, options={"sandbox": "auto"})

    record = next(iter(run.records()))
    assert end.sandbox == "bwrap"
    assert record.result().outcome.kind == "completed"
    assert "Read-only file system" in record.result().output
    assert not (tmp_path / "by-command").exists()
    assert not (tmp_path / "by-user").exists()
    workspace = record.manifest().workspace
    assert (workspace.sandbox, workspace.is_watched) == ("none", False)


@needs_bubblewrap
async def test_an_agent_that_needs_what_it_cannot_see_is_an_error_that_says_how_to_show_it(
    tmp_path: Path, scratch_root: Path
) -> None:
    hidden = scratch_root / "module"
    hidden.mkdir()
    (hidden / "needed.py").write_text("")
    script = tmp_path / "agent"
    script.write_text(f"#!/bin/sh\ntest -e {hidden}/needed.py || exit 9\nexec {AGENT}\n")
    script.chmod(0o755)

    with pytest.raises(EvalError, match=r"exited with code 9(.|\n)*`--sandbox none`") as caught:
        await run_cases(tmp_path / "one", case("say x"), agents={"it": str(script)}, options={"sandbox": "auto"})
    assert str(scratch_root) in str(caught.value)
    end, _ = await run_cases(tmp_path / "two", case("say x"), agents={"it": str(script)}, options={"sandbox": "none"})
    assert (end.progress.done, end.progress.missing) == (1, 0)


@needs_bubblewrap
@pytest.mark.fault("TRI-03")
async def test_the_processes_of_a_confined_agent_end_with_it(tmp_path: Path) -> None:
    record = await record_of(tmp_path, case(f"orphan {tmp_path}", "say x"), options={"sandbox": "bwrap"})

    assert record.result().output == "x"
    assert processes_with(str(tmp_path)) == []


@needs_bubblewrap
async def test_commands_that_a_confined_agent_runs_in_our_terminals_are_confined_too(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    text = f"""
[[cases]]
id = "it"
prompts = ["/run touch {outside}"]
on_ask = "allow"
permissions = {{ execute = "allow" }}
"""
    _, run = await run_cases(tmp_path, text, options={"sandbox": "bwrap"})

    assert not outside.exists()
    assert "Read-only file system" in next(iter(run.records())).wire_file.read_text()


async def test_a_sandbox_that_does_not_work_is_an_error_only_if_it_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "obstacle", lambda: "bubblewrap (bwrap) is not installed")

    with pytest.raises(EvalError, match="not installed"):
        await run_cases(tmp_path / "one", case("say x"), agents={"it": AGENT}, options={"sandbox": "bwrap"})
    end, _ = await run_cases(tmp_path / "two", case("say x"), agents={"it": AGENT}, options={"sandbox": "auto"})
    assert end.sandbox == "bubblewrap (bwrap) is not installed"


def test_the_package_stays_visible_where_it_is_installed_below_the_directory_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Path(duologue.__file__).parents[1]
    monkeypatch.setattr(tempfile, "tempdir", str(package.parent))
    words = bubblewrap.prefix_of(Scratch(tmp_path), ["agent"])

    shown = [tuple(words[at : at + 3]) for at in range(len(words))]
    hidden = shown.index(("--bind", str(tmp_path / "tmp"), str(package.parent)))
    assert hidden < shown.index(("--ro-bind", str(package), str(package)))
