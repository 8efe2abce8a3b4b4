"""The first minute with `duologue`: every line of the README works as typed, and a typo is corrected."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import duologue
from duologue.builtin.commands.demo import STEPS
from duologue.cli.main import main
from duologue.cli.parser import SUBCOMMANDS, each_command, make_parser, subcommands
from duologue.cli.targets import target_of
from tests.cli.program import duologue as program
from tests.cli.program import environment, terminal

ROOT = Path(__file__).parents[2]


def test_python_m_duologue_is_the_command(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "duologue", "run", "/echo hello"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        check=False,
    )

    assert (ended.returncode, ended.stdout.partition("\n")[0]) == (0, "You said: hello")


@pytest.mark.parametrize("target", ["duologue agent", "builtin", ["duologue", "agent"]])
def test_the_built_in_agent_is_found_without_an_activated_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str | list[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    assert "You said: hello" in duologue.ask(target, "/echo hello")


def test_a_command_after_the_dashes_is_found_without_an_activated_environment(tmp_path: Path) -> None:
    ended = program(tmp_path, "run", "/echo hello", "--", "duologue", "agent", PATH="/bin:/usr/bin")

    assert "You said: hello" in ended.stdout


def test_the_built_in_agent_imports_nothing_from_the_directory_it_works_in(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('a file of the project was executed')\n")
    ended = subprocess.run(
        [Path(sys.executable).parent / "duologue", "run", "/echo hello"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr


def typed_line(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Run a command line that only prints; return its exit code and its output."""
    with pytest.raises(SystemExit) as raised:
        main(words)
    shown = capsys.readouterr()
    return int(raised.value.code or 0), shown.out + shown.err


@pytest.mark.parametrize(
    ("typed", "meant"), [("chta", "chat"), ("session", "sessions"), ("docter", "doctor"), ("hlep", "help")]
)
def test_a_mistyped_command_is_answered_with_the_likely_one(
    capsys: pytest.CaptureFixture[str], typed: str, meant: str
) -> None:
    code, shown = typed_line(capsys, typed)

    assert code == 2
    assert f"unknown command {typed!r}; did you mean {meant!r}?" in shown


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["hello"], "; `duologue run hello` sends it as a prompt, `duologue help` lists the commands"),
        (["fix", "the", "test"], "; `duologue run 'fix the test'` sends it as a prompt"),
        (["/tour"], "; `duologue run /tour` sends it as a prompt"),
        (["agent.py"], "; did you mean `duologue dev agent.py`?"),
        (["run", "hello", "gemini", "--acp"], "; a command goes after `--`: `duologue run hello -- gemini --acp`"),
        (["run", "hello", "python", "agent.py", "--yes"], "`duologue run hello --yes -- python agent.py`"),
        (["chat", "./agent"], "; a command goes after `--`: `duologue chat -- ./agent`"),
        (["run", "please", "test", "it"], "; put the prompt in quotes: `duologue run 'please test it'`"),
        (["run", "hello", "--model", "big"], "; the option is `--set model=big`"),
        (["chat", "--model=big one"], "; the option is `--set model='big one'`"),
        (["run", "hello", "--yolo"], "; the option is `--yes`"),
        (["run", "hello", "--colour"], "; see `duologue run --help`"),
        (["run", "hello", "-c"], "; the option is `--continue`"),
        (["chat", "--resume", "s1"], "; the option is `--session s1`"),
        (["chat", "-r"], "; the option is `--session ID`"),
        (["run", "hello", "-x"], "; see `duologue run --help`"),
    ],
)
def test_a_wrong_line_is_answered_with_the_right_one(
    capsys: pytest.CaptureFixture[str], typed: list[str], meant: str
) -> None:
    code, shown = typed_line(capsys, *typed)

    assert code == 2
    assert shown.endswith(f"{meant}\n") or f"{meant}," in shown
    assert f"usage: duologue {'' if typed[0] not in each_command() else typed[0]}" in shown


def test_a_mistyped_option_is_answered_with_the_likely_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean '--timeout'?" in typed_line(capsys, "run", "hello", "--timout", "3")[1]


def test_version_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed_line(capsys, "version") == typed_line(capsys, "--version")
    assert typed_line(capsys, "version", "1")[0] == 2


def test_help_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed_line(capsys, "help") == typed_line(capsys, "--help")
    for name in each_command():
        assert typed_line(capsys, "help", name) == typed_line(capsys, name, "--help")
    assert "did you mean 'run'?" in typed_line(capsys, "help", "rnu")[1]


def test_the_help_of_the_program_builds_no_subcommand() -> None:
    def built(*words: str) -> list[str]:
        return [name for name, parser in make_parser(words)[1].items() if subcommands(parser)]

    assert built("--help") == []
    assert built("eval", "run") == ["eval"]
    assert sorted(name for name, (_, parser) in each_command().items() if subcommands(parser)) == sorted(SUBCOMMANDS)


def test_the_version_has_a_short_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed_line(capsys, "-V") == (0, f"duologue {duologue.__version__}\n")


def test_a_person_can_follow_the_tour_and_its_markdown_is_rendered(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "/tour", "--yes") as console:
        console.until("This is the Agent Client Protocol at work")
        console.until("☑ Run a command on it")

        assert console.wait() == 0
    found = re.search(r"\(end_turn, ([\d.]+) s", console.text)
    assert found is not None
    assert float(found[1]) > len(STEPS) * 1.4


def test_an_agent_started_without_a_client_says_what_it_is_and_how_to_talk_to_it(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("from duologue import Agent\n\nAgent('lonely').run()\n")
    with terminal(tmp_path, program=[sys.executable, "agent.py"]) as console:
        console.until("This is an ACP agent: it waits for a client")
        console.until("To talk to it: duologue chat -- python agent.py")
        console.until("To exit: Ctrl-C")
        console.interrupt()
        console.wait()


def test_a_tour_for_a_program_is_not_delayed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments, _ = make_parser()[0].parse_known_args(["run", "/tour"])
    arguments.command_line = []

    assert target_of(arguments) == {"command": "duologue", "args": ["agent"]}


def commands_after_make_run() -> list[str]:
    makefile = (ROOT / "Makefile").read_text()
    return [line.replace("$(BIN)", ".venv/bin") for line in re.findall(r'@echo "  (\$\(BIN\)[^"]+)"', makefile)]


def test_make_run_ends_with_three_commands_to_try() -> None:
    assert len(commands_after_make_run()) == 3


@pytest.mark.parametrize("line", commands_after_make_run())
def test_a_command_that_make_run_proposes_works_as_typed(tmp_path: Path, line: str) -> None:
    own = line.replace(".venv/bin", str(Path(sys.executable).parent))
    ended = subprocess.run(
        shlex.split(own),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
