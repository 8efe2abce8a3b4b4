"""The interface between a chat and its line editors."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from duologue.cli.console.markdown import Draft

Q = TypeVar("Q")
T = TypeVar("T")

Offer: TypeAlias = Callable[[str], Iterable[tuple[str, str, str]]]
"""Text before the cursor -> completions: the part to replace, its replacement, a description."""


@dataclass(frozen=True)
class EditorCallbacks:
    """Callbacks of an editor into the chat.

    Attributes:
        offer: Returns completions.
        status: Returns the lines to show above the one that is being typed, for a width: the queue, what is going on.
        interrupt: Called for Ctrl-C; returns False if nothing runs that it could cancel.
        is_working: Returns True while the agent works.
    """

    offer: Offer
    status: Callable[[int], list[str]]
    interrupt: Callable[[], bool]
    is_working: Callable[[], bool]


class LineEditor(Protocol):
    """Reads the lines that the user types, also while the agent works.

    Attributes:
        is_prompting: A prompt is on the screen that output would run into; `above` avoids that.
        draft: Where a growing paragraph is shown; None if it is drawn on the screen itself.
        has_status: The lines of `EditorCallbacks.status` are always in view.
    """

    is_prompting: bool
    has_status: bool

    @property
    def draft(self) -> Draft | None: ...

    def active(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager in which lines are read."""
        ...

    async def read(self) -> str | None:
        """Return the next line; None when the user exits."""
        ...

    def echo(self, line: str, *, has_waited: bool = False) -> None:
        """Show a line that was entered and is handled now, unless it is in view already."""
        ...

    def edit(self, text: str) -> bool:
        """Put text into the line that is being typed; return False if that is impossible here."""
        ...

    def refresh(self) -> None:
        """Show the current status, and the prompt if the agent has finished."""
        ...

    def above(self, show: Callable[[], None]) -> None:
        """Show something above the line that is being typed."""
        ...

    def close(self) -> None:
        """Remove the line that is being typed from the screen, because the program exits at once."""
        ...

    def suspended(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager in which something else may read from the terminal."""
        ...


def asking_alone(
    editor: LineEditor, ask: Callable[[Q], Coroutine[Any, Any, T]]
) -> Callable[[Q], Coroutine[Any, Any, T]]:
    """Return a function that asks while nothing else reads from the terminal."""

    async def ask_alone(question: Q) -> T:
        async with editor.suspended():
            return await ask(question)

    return ask_alone
