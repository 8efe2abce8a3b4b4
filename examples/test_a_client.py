"""Tests of a client in any language: the agents are commands that play a script or a profile. Run it with `pytest`."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CLIENT = [sys.executable, str(HERE / "plain_client.py")]  # the command of your client
AGENT = [sys.executable, "-m", "duologue", "agent"]


def run_client(prompt: str, *agent: str) -> subprocess.CompletedProcess[str]:
    command = [*CLIENT, prompt, *AGENT, *agent]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_client_allows_the_deletion_and_shows_the_text() -> None:
    ended = run_client("delete old.txt", "--scenario", str(HERE / "client_test.toml"))

    assert (ended.returncode, ended.stdout) == (0, "Deleting. Done."), ended.stderr


def test_a_scenario_fails_when_the_client_does_something_else() -> None:
    ended = run_client("delete everything", "--scenario", str(HERE / "client_test.toml"))

    assert ended.returncode != 0
    assert 'text is "delete everything", not "delete old.txt"' in ended.stderr


@pytest.mark.parametrize("profile", ["claude", "codex", "eager", "gemini", "opencode", "qwen"])
def test_the_client_lives_with_the_habits_of_published_agents(profile: str) -> None:
    ended = run_client("hello", "--profile", profile)

    assert (ended.returncode, ended.stdout) == (0, "You wrote: hello"), ended.stderr
