"""Let the user choose one of several answers: by a letter, by its number, or with the arrow keys.

On a capable terminal one key is enough. Text that arrives at once (a paste, a held key) is no answer unless all of it
is one, and keys count only after the user has stopped typing. Elsewhere a whole line is read.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence

from duologue.cli.console.line_reader import LineReader
from duologue.cli.console.safe_output import end_line, rewrite_line, say, terminal_width

END_OF_INPUT = "\x04"
ENTER = ("\r", "\n")
STEPS = {"\x1b[A": -1, "\x1bOA": -1, "\x1b[B": 1, "\x1bOB": 1}
"""Arrow keys up and down, in both modes of a terminal."""
ERASE = ("\x7f", "\b")


class Menu:
    """Answers that were listed with their numbers; the user chooses one.

    Args:
        reader: Reads what the user types.
        names: Name of each answer, one line each.
        keys: Letters that stand for an answer, and its index.
        others: Letters that `choose` returns as they are, and what they do.
    """

    def __init__(
        self, reader: LineReader, names: Sequence[str], keys: Mapping[str, int], others: Mapping[str, str]
    ) -> None:
        self._reader = reader
        self._names = names
        self._keys = keys
        self._others = others
        self._typed = ""
        self._selected: int | None = None

    async def choose(self) -> int | str | None:
        """Return the index of an answer, or one of the other letters; None at the end of the input.

        Anything else asks again.
        """
        is_by_key = os.environ.get("TERM", "dumb") != "dumb" and sys.stderr.isatty()
        if is_by_key and self._reader.is_terminal:
            return await self._choose_by_key()
        try:
            return await self._choose_by_line()
        except asyncio.CancelledError:
            end_line()
            raise

    async def _choose_by_line(self) -> int | str | None:
        self._reader.set_input_aside()
        say(self._prompt())
        while (typed := await self._reader.read()) is not None:
            chosen = self._meaning(typed.strip())
            if chosen is not None:
                return chosen
            say(f"Not an answer. {self._prompt()}")
        say("\n")
        return None

    async def _choose_by_key(self) -> int | str | None:
        with self._reader.single_keys():
            await self._reader.wait_until_idle()
            try:
                return await self._press_keys()
            finally:
                end_line()

    async def _press_keys(self) -> int | str | None:
        self._redraw()
        while keys := await self._reader.read_keys():
            while keys and keys[0] in STEPS:
                self._select(STEPS[keys.pop(0)])
            if keys == [END_OF_INPUT]:
                return None
            chosen = self._press(keys) if keys else None
            if chosen is not None:
                self._redraw_chosen(chosen)
                return chosen
        return None

    def _select(self, step: int) -> None:
        first = 0 if step > 0 else len(self._names) - 1
        self._selected = first if self._selected is None else (self._selected + step) % len(self._names)
        self._typed = ""
        self._redraw()

    def _press(self, keys: list[str]) -> int | str | None:
        """Return the answer that these keys complete; otherwise show what was typed, or that it is no answer."""
        has_enter = keys[-1] in ENTER
        if has_enter:
            keys = keys[:-1]
        if has_enter and not keys and not self._typed and self._selected is not None:
            return self._selected
        if not has_enter and keys[-1] in ERASE:
            self._typed = self._typed[:-1]
            self._redraw()
            return None
        text = self._typed + "".join(keys)
        chosen = self._meaning(text)
        may_go_on = isinstance(chosen, int) and text.isdecimal() and int(text) * 10 <= len(self._names)
        if chosen is not None and (has_enter or not may_go_on):
            return chosen
        self._typed, self._selected = text if chosen is not None else "", None
        self._redraw("" if chosen is not None else "Not an answer. ")
        return None

    def _meaning(self, text: str) -> int | str | None:
        """Return the answer that a whole text stands for; None if it is none."""
        letter = text.lower()
        if letter in self._others:
            return letter
        if letter in self._keys:
            return self._keys[letter]
        is_number = text.isascii() and text.isdecimal() and len(text) < 4
        return int(text) - 1 if is_number and 0 < int(text) <= len(self._names) else None

    def _prompt(self, arrows: str = "") -> str:
        count = len(self._names)
        inputs = [*self._keys, "1" if count == 1 else f"1 to {count}", *([arrows] if arrows else [])]
        others = "".join(f"; {letter} {effect}" for letter, effect in self._others.items())
        return f"Your choice ({', '.join(inputs)}{others}): "

    def _redraw(self, complaint: str = "") -> None:
        prompt = self._prompt("arrow keys") + self._typed
        if self._selected is not None:
            prompt = f"Enter chooses {self._selected + 1}. {self._names[self._selected]}"
        rewrite_line(complaint + prompt, terminal_width())

    def _redraw_chosen(self, chosen: int | str) -> None:
        name = chosen if isinstance(chosen, str) else f"{chosen + 1}. {self._names[chosen]}"
        rewrite_line(f"Your choice: {name}", terminal_width())
