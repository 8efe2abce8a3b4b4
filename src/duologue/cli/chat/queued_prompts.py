"""Prompts that wait until the agent has finished the current one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from duologue.cli.console.safe_output import first_columns
from duologue.cli.exit_codes import UsageError
from duologue.sanitize import escape_line

MOST_QUEUED = 20
"""Prompts that may wait; a further one is not accepted."""


@dataclass(frozen=True)
class QueuedPrompt:
    """A prompt to send, and whether it had to wait."""

    text: str
    has_waited: bool


class QueuedPrompts:
    """Prompts in the order in which they are sent.

    Attributes:
        on_change: Called after each change.
        is_held: Nothing is sent until the user says so: the turn before was cancelled or failed.
        edited: Number of the prompt that the user edits now; nothing is sent meanwhile.
    """

    def __init__(self) -> None:
        self.is_held = False
        self.edited: int | None = None
        self._entries: list[QueuedPrompt] = []
        self._is_wanted = False
        self._is_closed = False
        self.on_change: Callable[[], None] = lambda: None
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_idle(self) -> bool:
        """True if no prompt is being handled and none can be sent."""
        return self._is_wanted and not self._can_send

    @property
    def _can_send(self) -> bool:
        return bool(self._entries) and not self.is_held and self.edited is None

    async def next(self) -> QueuedPrompt:
        """Wait for the next prompt to send, and remove it."""
        self._is_wanted = True
        if not self._can_send:
            self._notify()
        while not self._can_send:
            self._changed.clear()
            await self._changed.wait()
        self._is_wanted = False
        entry = self._entries.pop(0)
        self._notify()
        return entry

    async def wait_until_idle(self) -> None:
        """Wait until no prompt is being handled and none can be sent."""
        while not self.is_idle:
            self._changed.clear()
            await self._changed.wait()

    def add(self, text: str, *, is_first: bool = False) -> int:
        """Append a prompt; return its number, 0 if it is sent immediately. A prompt after held ones goes first.

        Args:
            text: The prompt.
            is_first: Send it before the others.

        Raises:
            UsageError: Too many wait already, or the chat exits.
        """
        if self._is_closed:
            raise UsageError("not queued: the chat exits")
        if len(self._entries) >= MOST_QUEUED:
            raise UsageError(f"not queued: {MOST_QUEUED} prompts wait already; `:drop N` drops one")
        has_waited = not self.is_idle
        at = len(self._entries) if has_waited and not is_first else 0
        self._entries.insert(at, QueuedPrompt(text, has_waited))
        if self.edited is not None and at < self.edited:
            self.edited += 1
        self.is_held = False
        self._notify()
        return at + 1 if has_waited else 0

    def hold(self) -> None:
        """Send nothing until `release` or `add`, if prompts wait."""
        self.is_held = bool(self._entries)
        self._notify()

    def release(self) -> None:
        """Go on sending."""
        self.is_held = False
        self._notify()

    def replace(self, number: int, text: str) -> None:
        """Replace the text of a prompt; without a text, drop it."""
        if text.strip():
            self._entries[number - 1] = replace(self._entries[number - 1], text=text)
        else:
            del self._entries[number - 1]
        self._notify()

    def close(self) -> list[str]:
        """Remove and return all prompts, and accept none after that."""
        self._is_closed = True
        return self.clear()

    def clear(self) -> list[str]:
        """Remove and return all prompts."""
        texts = [entry.text for entry in self._entries]
        self._entries.clear()
        self.edited = None
        self.is_held = False
        self._notify()
        return texts

    def begin_edit(self, number: int) -> str:
        """Return the text of a prompt; nothing is sent until `end_edit`."""
        self.edited = number
        self._notify()
        return self._entries[number - 1].text

    def end_edit(self, text: str) -> None:
        """Replace the text of the edited prompt; without a text, drop it."""
        number, self.edited = self.edited, None
        if number is not None:
            self.replace(number, text)

    def cancel_edit(self) -> None:
        """Leave the edited prompt as it was."""
        self.edited = None
        self._notify()

    def number_of(self, argument: str) -> int:
        """Return the number of a prompt that the user named; without a name, the last one.

        Raises:
            UsageError: There is no such prompt.
        """
        if not self._entries:
            raise UsageError("no prompt is queued; what you type while the agent works is")
        number = argument or str(len(self._entries))
        if not (number.isascii() and number.isdecimal() and 0 < int(number[:9]) <= len(self._entries)):
            raise UsageError(f"no queued prompt has the number {escape_line(number)}; `:queue` lists them")
        return int(number)

    def lines(self, width: int, most: int = MOST_QUEUED) -> list[str]:
        """Return the prompts numbered and shortened, one line each."""
        rows = [
            f"  {number}. {escape_line(' '.join(entry.text.split()), None)}"
            for number, entry in enumerate(self._entries, 1)
        ]
        shown = [row if first_columns(row, width - 1) == row else f"{first_columns(row, width - 3)}…" for row in rows]
        left_out = [f"  … {len(rows) - most} more; :queue shows them"] if len(rows) > most else []
        return [*shown[:most], *left_out]

    def _notify(self) -> None:
        self._changed.set()
        self.on_change()
