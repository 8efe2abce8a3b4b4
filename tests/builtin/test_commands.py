"""The list of commands: complete, in order, offered as it is, and the same in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue.builtin.command_table import CHAPTERS, COMMANDS, table_of
from duologue.builtin.slash_command import number_in, path_and_rest, seconds_in
from duologue.schema import v1
from scripts.command_tables import PAGE, with_tables
from tests.builtin.harness import open_harness

PROMISED = (
    "read write edit search run plan think permission ask image audio stream slow tools mode config mcp usage notice "
    "compact refuse max-tokens max-requests error crash background big unknown-update noise subagent session-message "
    "title commands cancel-me links meta help"
)


def test_every_command_that_was_promised_exists_and_help_is_the_first() -> None:
    assert set(PROMISED.split()) <= set(COMMANDS)
    assert next(iter(COMMANDS)) == "help"


def test_no_command_is_there_twice_and_each_says_what_it_is_for() -> None:
    commands = [command for chapter in CHAPTERS.values() for command in chapter]
    assert len({command.name for command in commands}) == len(commands)
    assert [command.name for command in commands if not command.description or not command.shows] == []


async def test_commands_are_offered_in_their_order_once_a_session_is_open(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("hello")
        (offer,) = [update for update in harness.client.updates if isinstance(update, v1.AvailableCommandsUpdate)]
        assert [command.name for command in offer.available_commands] == list(COMMANDS)
        assert offer.available_commands[0].input == v1.UnstructuredCommandInput(hint="[command]")


async def test_help_lists_every_command_and_explains_one(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        for question in ("/help", "what can you do?"):
            text = await harness.ask(question)
            assert [name for name in COMMANDS if f"| `/{name}" not in text] == []
        assert await harness.ask("/help /read") == table_of(COMMANDS["read"])


async def test_a_command_that_does_not_exist_is_answered_with_one_that_does(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert "There is no command `/reed`. Did you mean `/read`?" in await harness.ask("/reed me")


def test_the_documentation_shows_the_same_commands() -> None:
    page = PAGE.read_text("utf-8")

    assert page == with_tables(page), "run `python -m scripts.command_tables`"


@pytest.mark.parametrize(
    ("argument", "number"), [("", 7), ("5", 5), ("5_000", 5000), ("1,000", 1000), ("9" * 30, 7), ("²", 7), ("-1", 7)]
)
def test_a_number_is_parsed_leniently(argument: str, number: int) -> None:
    assert number_in(argument, 7, 10_000) == number


def test_a_number_has_an_upper_bound() -> None:
    assert number_in("20000", 7, 10_000) == 10_000


@pytest.mark.parametrize(("argument", "seconds"), [("", 1.0), ("2", 2.0), ("0.5s", 0.5), ("99", 60.0), ("soon", 1.0)])
def test_a_time_is_parsed_leniently(argument: str, seconds: float) -> None:
    assert seconds_in(argument, 1.0, 60.0) == seconds


@pytest.mark.parametrize(
    ("argument", "path", "rest"),
    [
        ("", "", ""),
        ("  ", "", ""),
        ("a.txt", "a.txt", ""),
        ("a.txt  two words", "a.txt", " two words"),
        ("'a b.txt' rest", "a b.txt", "rest"),
        ('"a b.txt"', "a b.txt", ""),
        ("a.txt\nline", "a.txt", "line"),
    ],
)
def test_a_path_is_the_first_word_or_what_quotes_hold_together(argument: str, path: str, rest: str) -> None:
    assert path_and_rest(argument) == (path, rest)
