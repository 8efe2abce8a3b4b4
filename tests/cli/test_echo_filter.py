"""Agents that send the prompt back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.program import ODD_AGENT, duologue, terminal


@pytest.mark.fault("CLI-05")
@pytest.mark.parametrize("pieces", [["good  day"], ["go", "od", " ", "day\n"], ["good"]])
@pytest.mark.parametrize("command", ["run", "chat"])
def test_a_prompt_that_is_sent_back_is_not_shown(tmp_path: Path, command: str, pieces: list[str]) -> None:
    prompt = "good day"
    arguments = [command, prompt] if command == "run" else [command]
    ended = duologue(tmp_path, *arguments, "--", *ODD_AGENT, "echo", *pieces, stdin=f"{prompt}\n{prompt}\n")

    assert ended.stdout.startswith("heard")
    assert "good" not in ended.stderr


@pytest.mark.fault("CLI-05")
def test_on_a_terminal_it_is_only_what_was_typed(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "good day", "--", *ODD_AGENT, "echo", "good ", "day") as console:
        assert console.wait() == 0
        assert "good" not in console.text


@pytest.mark.parametrize("pieces", [["good evening"], ["good ", "evening"], ["good day", "and good evening"]])
def test_user_messages_of_an_agent_that_are_not_an_echo_are_shown(tmp_path: Path, pieces: list[str]) -> None:
    ended = duologue(tmp_path, "run", "good day", "--", *ODD_AGENT, "echo", *pieces)
    shown = "".join(line.removeprefix("> ") for line in ended.stderr.splitlines() if line.startswith("> "))

    assert shown == "".join(pieces).removeprefix("good day")


def test_programs_get_the_echo(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "good day", "--json", "--", *ODD_AGENT, "echo", "good day")

    assert '"event":"UserText"' in ended.stdout
