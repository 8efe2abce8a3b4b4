"""The title of a session: set by the user, by the agent, or made from the first prompt."""

from __future__ import annotations

from duologue.conversation.content import Content, text_of

MAX_CHARACTERS = 80
"""Length of a title that is made from a prompt: one line of a list."""


class SessionTitle:
    """The current title and its origin; a title of the user is never replaced by the agent.

    Args:
        saved: The last title that the agent itself set.
        is_automatic: Whether the first prompt makes a title.

    Attributes:
        text: The current title.
        by_agent: The last title that the agent itself set.
    """

    def __init__(self, saved: str | None, is_automatic: bool) -> None:
        self.text: str | None = None
        self.by_agent = saved
        self._is_automatic = is_automatic
        self._is_by_user = False
        self._is_missing = True

    def restore(self, title: str | None) -> None:
        """Set the stored title; one that the agent did not set itself was set by the user."""
        self.text = title
        self._is_by_user = title not in (None, self.by_agent)
        self._is_missing = title is None

    def set_by_agent(self, title: str | None) -> bool:
        """Set the agent's title and return True, unless the user has set one."""
        if self._is_by_user:
            return False
        self._is_missing = False
        self.text = self.by_agent = title
        return True

    def set_by_user(self, title: str) -> None:
        """Set the title that the user chose."""
        self.text = title
        self._is_by_user = True
        self._is_missing = False

    def from_prompt(self, prompt: list[Content]) -> str | None:
        """Return the beginning of a prompt if the session still needs a title."""
        if not (self._is_automatic and self._is_missing):
            return None
        text = " ".join(text_of(prompt)[: 10 * MAX_CHARACTERS].split())
        if not text:
            return None
        return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1].rstrip() + "…"
