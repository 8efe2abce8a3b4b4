"""The first minute with `duologue`: every line of the README works as typed, and a typo is corrected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import duologue
from duologue.cli.main import main
from duologue.cli.parser import each_command
from tests.cli.program import duologue as program
from tests.cli.program import environment


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


def test_a_command_like_no_other_leads_to_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown command 'xyz'; `duologue help` lists them" in typed_line(capsys, "xyz")[1]


def test_a_mistyped_option_is_answered_with_the_likely_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean '--timeout'?" in typed_line(capsys, "run", "hello", "--timout", "3")[1]


def test_help_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed_line(capsys, "help") == typed_line(capsys, "--help")
    for name in each_command():
        assert typed_line(capsys, "help", name) == typed_line(capsys, name, "--help")
    assert "did you mean 'run'?" in typed_line(capsys, "help", "rnu")[1]


def test_the_version_has_a_short_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed_line(capsys, "-V") == (0, f"duologue {duologue.__version__}\n")
