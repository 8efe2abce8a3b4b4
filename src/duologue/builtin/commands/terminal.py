"""Commands that run a program: in the client's terminal, or as a child process."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from duologue import Turn
from duologue.builtin.settings import BuiltinSettings, acts_done, may
from duologue.builtin.slash_command import command, words_in
from duologue.errors import DuologueError

RUN_SECONDS = 60.0
"""Seconds that `/run` gives a command."""

TEST_SECONDS = 600.0

TESTS: tuple[tuple[str, str, list[str]], ...] = (
    ("Makefile", r"^test:", ["make", "test"]),
    ("pyproject.toml", "", ["python3", "-m", "pytest"]),
    ("package.json", r'"test"\s*:', ["npm", "test"]),
    ("Cargo.toml", "", ["cargo", "test"]),
    ("go.mod", "", ["go", "test", "./..."]),
)
"""How to find and run a project's tests: file, pattern in the file, command."""


@command("run", "Run a command, no shell in between", shows="execute tools, terminals, permission", hint="command")
async def run(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Run a command, for at most a minute; asks first in the default mode."""
    try:
        words = words_in(argument) or ["echo", "hello"]
    except ValueError as error:
        await turn.say(f"I cannot read that command: {error}.\n")
        return
    await _run(turn, words, RUN_SECONDS)


@command("test", "Run the project's tests", shows="execute tools, terminals, permission")
async def test(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Run the tests that the project's files define."""
    words = how_to_test(turn.cwd)
    if words is None:
        await turn.say(f"I see no tests here: I look for {', '.join(name for name, _, _ in TESTS)}.\n")
        return
    await _run(turn, words, TEST_SECONDS)


COMMANDS = (run, test)


def how_to_test(directory: Path) -> list[str] | None:
    """Return the command that runs the tests of this directory, if it has any."""
    for name, marker, words in TESTS:
        try:
            text = (directory / name).read_text("utf-8", errors="replace")
        except OSError:
            continue
        if re.search(marker, text, re.MULTILINE):
            return words
    return None


async def _run(turn: Turn[BuiltinSettings], words: list[str], seconds: float) -> None:
    async with turn.tool(shlex.join(words), kind="execute", raw_input={"command": words}) as tool:
        if not await may(turn, tool, "run commands"):
            await turn.say("I ran nothing.\n")
            return
        try:
            ran = await turn.run(*words, timeout=seconds, tool=tool)
        except DuologueError as error:
            await tool.fail(str(error))
            await turn.say(f"It could not be run: {error}\n")
            return
    acts_done.set(acts_done.get() + 1)
    ended = f"was stopped after {seconds:.0f} seconds" if ran.timed_out else f"ended with {ran.signal or ran.exit_code}"
    await turn.say(f"It {ended} and printed {len(ran.output):,} characters.\n")
