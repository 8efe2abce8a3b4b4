"""Plain words are understood as far as a few patterns go."""

from __future__ import annotations

import pytest

from duologue.builtin.command_table import COMMANDS, explain_unknown
from duologue.builtin.intents import OTHER_NAMES, PATTERNS, command_for


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("what can you do?", "help", ""),
        ("Help!", "help", ""),
        ("how does this work", "help", ""),
        ("show me your commands", "help", ""),
        ("Hello there", "hello", ""),
        ("good morning", "hello", ""),
        ("run the tests", "test", ""),
        ("Please run all my tests.", "test", ""),
        ("test", "test", ""),
        ("run `ls -la src`", "run", "ls -la src"),
        ("execute make", "run", "make"),
        ("list the files", "files", ""),
        ("What files are here?", "files", ""),
        ("show me README.md", "read", "README.md"),
        ("read the file src/main.py", "read", "src/main.py"),
        ("cat ./notes", "read", "./notes"),
        ("search for 'async def'", "search", "async def"),
        ("where is Turn?", "search", "Turn"),
        ("find needle", "search", "needle"),
        ('write "hello you" to a.txt', "write", "a.txt hello you"),
        ("replace old with brand new in a.txt", "edit", "a.txt old 'brand new'"),
        ("show me a diff", "edit", ""),
        ("switch to code mode", "mode", "code"),
        ("go into architect", "mode", "architect"),
        ("which mode is this?", "mode", ""),
        ("how many tokens did you use?", "usage", ""),
        ("think about tea", "think", "tea"),
        ("ask me for permission", "permission", ""),
        ("ask me something", "ask", ""),
        ("show me a picture", "image", ""),  # not prose: a user's words
        ("play a sound", "audio", ""),
        ("make a plan", "plan", ""),
        ("show me some tool calls", "tools", ""),
        ("show me the exit plan", "exit-plan", ""),
        ("show me an unknown update", "unknown-update", ""),
        ("  /stream 5 ", "stream", "5"),
        ("/nonsense now", "nonsense", "now"),
        ("show me the money", "echo", "show me the money"),
        ("lorem ipsum\nhello", "echo", "lorem ipsum\nhello"),
        ("", "echo", ""),
    ],
)
def test_a_phrase_selects_the_command_that_it_describes(text: str, name: str, argument: str) -> None:
    assert command_for(text, COMMANDS) == (name, argument)


def test_every_command_that_words_lead_to_exists() -> None:
    assert {name for _, name, _ in PATTERNS} | set(OTHER_NAMES.values()) <= set(COMMANDS)


def test_a_command_that_does_not_exist_is_explained() -> None:
    assert "Did you mean `/stream`?" in explain_unknown("steam")
    assert "Did you mean" not in explain_unknown("qqq")
