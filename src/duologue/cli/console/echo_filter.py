"""Filter events for the terminal: the copy of the prompt that some agents send back, and what prints nothing."""

from __future__ import annotations

from duologue import events
from duologue.events import Event, MediaContent, Message, UserText

QUIET_EVENTS = (
    *(events.CommandsChanged, events.SettingsChanged, events.StateChanged, events.TitleChanged),
    *(events.Terminal, events.TerminalOutput, events.Usage, events.UsageChanged),
)
"""Events that print nothing, and so do not interrupt the line the user is typing."""


class EchoFilter:
    """Drop the echo of a prompt; other messages with the user's role pass."""

    def __init__(self) -> None:
        self._is_running = False
        self._rest: str | None = None
        """Rest of the prompt that was not echoed yet, without whitespace; None when no echo is expected."""
        self._buffered: list[Event] = []

    def begin(self, prompt: str) -> None:
        """Expect an echo of this prompt, in any pieces and with any whitespace."""
        self._is_running, self._rest, self._buffered = True, _without_whitespace(prompt), []

    def end(self) -> None:
        """Expect no echo after the end of the turn; drop a partial one."""
        self._is_running, self._rest, self._buffered = False, None, []

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
        text = _without_whitespace(event.text)
        if rest.startswith(text):
            self._rest = rest[len(text) :] or None
            self._buffered = [] if self._rest is None else [*self._buffered, event]
            return []
        shown, self._buffered, self._rest = [*self._buffered, event], [], None
        return shown


def _without_whitespace(text: str) -> str:
    return "".join(text.split())
