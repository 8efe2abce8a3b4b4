"""The prompt that an agent sends back: the user has just typed it, and does not need to read it again."""

from __future__ import annotations

from duologue.events import Event, MediaContent, Message, UserText

__all__ = ["EchoFilter"]


class EchoFilter:
    """Leaves out the echo of a prompt; what else an agent says in the name of the user is shown."""

    def __init__(self) -> None:
        self._is_running = False
        self._rest: str | None = None
        """What of the prompt was not echoed yet, without whitespace; None when no echo is expected."""
        self._held: list[Event] = []

    def begin(self, prompt: str) -> None:
        """Expect an echo of this prompt, in any pieces and with any whitespace."""
        self._is_running, self._rest, self._held = True, _letters(prompt), []

    def end(self) -> None:
        """Expect none: the turn is over. What began like an echo was one."""
        self._is_running, self._rest, self._held = False, None, []

    def pass_on(self, event: Event) -> list[Event]:
        """Return the events to show now."""
        match event:
            case Message(role="user") | MediaContent(role="user") if self._is_running:
                return []
            case UserText() if self._rest is not None:
                return self._compare(event, self._rest)
            case _:
                return [event]

    def _compare(self, event: UserText, rest: str) -> list[Event]:
        said = _letters(event.text)
        if rest.startswith(said):
            self._rest = rest[len(said) :] or None
            self._held = [] if self._rest is None else [*self._held, event]
            return []
        shown, self._held, self._rest = [*self._held, event], [], None
        return shown


def _letters(text: str) -> str:
    return "".join(text.split())
