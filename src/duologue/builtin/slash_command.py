"""A slash command: its name, its handler, the protocol feature it shows, and how its argument is parsed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from duologue import Turn
from duologue.builtin.settings import BuiltinSettings

Handler: TypeAlias = Callable[[Turn[BuiltinSettings], str], Awaitable[str | None]]

_FIRST = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|(\S+))\s?""")


@dataclass(frozen=True)
class SlashCommand:
    """One command. Its handler gets the turn and the text after the command's name."""

    name: str
    description: str
    hint: str | None
    shows: str
    handler: Handler

    @property
    def usage(self) -> str:
        """The command with its hint: `/read path`."""
        return f"/{self.name} {self.hint}" if self.hint else f"/{self.name}"


def command(name: str, description: str, *, shows: str, hint: str | None = None) -> Callable[[Handler], SlashCommand]:
    """Make the decorated coroutine function the command `/name`."""
    return lambda handler: SlashCommand(name, description, hint, shows, handler)


def number_in(argument: str, default: int, most: int) -> int:
    """Parse a number such as `1_000` or `1,000`; at most `most`."""
    digits = argument.strip().replace("_", "").replace(",", "")
    return min(int(digits), most) if digits.isdecimal() and len(digits) < 20 else default


def seconds_in(argument: str, default: float, most: float) -> float:
    """Parse a time in seconds; at most `most`."""
    text = argument.strip().removesuffix("s")
    return min(float(text), most) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else default


def words_in(argument: str) -> list[str]:
    """Split the argument as a shell does, with quotes.

    Raises:
        ValueError: A quote is not closed.
    """
    return shlex.split(argument)


def path_and_rest(argument: str) -> tuple[str, str]:
    """Return the first word, which may be quoted, and the rest unchanged."""
    found = _FIRST.match(argument)
    if found is None:
        return "", ""
    return next(group for group in found.groups() if group is not None), argument[found.end() :]
