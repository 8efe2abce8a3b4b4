"""Describe mistakes in a command line, with the line that is probably meant."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from duologue.client.connect import NOT_AN_AGENT
from duologue.config.agents import KNOWN_COMMANDS
from duologue.suggestion import suggestion
from duologue.transports.process.command import program_name

INSTEAD = {
    "--model": "--set model={NAME}",
    "-m": "--set model={NAME}",
    "--yolo": "--yes",
    "-y": "--yes",
    "-c": "--continue",
    "-r": "--session {ID}",
    "--resume": "--session {ID}",
}
"""Options of other programs, and what takes their place; the value that was given goes into the braces."""

CLOSE = 0.7
"""How similar a word must be to a command: `hello` is a prompt, and not `help`."""

_RUNNERS = re.compile(r"(python|pypy)[\d.]*|node|npx|bunx?|uvx?|deno|pipx")


def unknown_command(words: Sequence[str], commands: Iterable[str]) -> str:
    """Describe a first word that is no command."""
    word, names = words[0], [*commands, "help"]
    if word.partition(":")[0].endswith(".py"):
        return f"unknown command {word!r}; did you mean `{_line(['dev', *words])}`?"
    swapped = [name for name in names if sorted(name) == sorted(word)]
    near = f"; did you mean {swapped[0]!r}?" if swapped else suggestion(word, names, cutoff=CLOSE)
    prompt = " ".join(each for each in words if not each.startswith("-"))
    sends = f"; `{_line(['run', prompt])}` sends it as a prompt, `duologue help` lists the commands"
    return f"unknown command {word!r}{near or sends}"


def unknown_arguments(own: Sequence[str], command: str | None, rest: Sequence[str], options: Iterable[str]) -> str:
    """Describe arguments that are not recognized.

    Args:
        own: The arguments before `--`.
        command: The command that was given.
        rest: Those that are not recognized.
        options: Options of the command.
    """
    shown = f"unrecognized arguments: {' '.join(rest)}"
    words = list(own)
    for word in reversed(rest):
        del words[len(words) - 1 - words[::-1].index(word)]
    if _is_command(rest):
        return f"{shown}; a command goes after `--`: `{_line([*words, '--', *rest])}`"
    if command == "run" and not any(word.startswith("-") for word in rest):
        prompt = [word for word in own[1:] if not word.startswith("-")]
        return f"{shown}; put the prompt in quotes: `{_line(['run', ' '.join(prompt)])}`"
    option, _, value = rest[0].partition("=")
    if option in INSTEAD:
        given = value or (rest[1] if len(rest) > 1 else "")
        meant = re.sub(r"\{(\w+)\}", lambda name: shlex.quote(given or name[1]), INSTEAD[option])
        return f"{shown}; the option is `{meant}`"
    near = next(filter(None, (suggestion(word, options) for word in rest if word.startswith("--"))), "")
    see = f"; see `{_line([*([] if command is None else [command]), '--help'])}`"
    return f"{shown}{near or see}"


def with_fitting_hint(text: str, command_line: Sequence[str]) -> str:
    """Return the text of an error about a command that is no agent with a hint for this very command."""
    if NOT_AN_AGENT not in text or not command_line:
        return text
    name = program_name(command_line)
    for program, *flags in KNOWN_COMMANDS.values():
        if Path(command_line[0]).name == program and not set(flags) <= set(command_line):
            return text.replace(NOT_AN_AGENT, f"; `{shlex.join([program, *flags])}` starts it as an ACP agent")
    if name.endswith(".py"):
        ends = f"; is {name} an agent? One written with duologue ends with `agent.run()` or `duologue.run(answer)`"
        return text.replace(NOT_AN_AGENT, ends)
    return text


def _is_command(words: Sequence[str]) -> bool:
    """Return True if the words look like the command of an agent, and not like those of a prompt."""
    first = words[0]
    if first.startswith("-"):
        return False
    is_program = os.sep in first or first.endswith(".py") or _RUNNERS.fullmatch(first) is not None
    has_option = len(words) > 1 and words[1].startswith("-")
    return is_program or has_option or (len(words) == 1 and shutil.which(first) is not None)


def _line(words: Sequence[str]) -> str:
    return shlex.join(["duologue", *words])
