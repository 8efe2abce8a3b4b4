"""What a client knows of a session, and nobody has to be asked for."""

from __future__ import annotations

from duologue.conversation.content import TextContent
from duologue.conversation.items import Terminal, ToolCall, Usage
from duologue.conversation.settings import ConfigOption, Modes
from duologue.conversation.transcript import MAX_TRANSCRIPT_BYTES, Transcript
from duologue.conversation.updates import AvailableCommand
from duologue.conversation.work_state import BackgroundWork
from duologue.errors import MethodNotFound

__all__ = ["SessionState", "check_can_cancel"]


class SessionState:
    """What the agent has told of a session so far.

    Attributes:
        transcript: Everything said and done so far; the oldest of it is dropped where it grows too large.
        max_transcript_bytes: The memory it may take; `None`: no limit.
    """

    def __init__(self, max_transcript_bytes: int | None = MAX_TRANSCRIPT_BYTES) -> None:
        self.max_transcript_bytes = max_transcript_bytes
        self.transcript = Transcript(max_transcript_bytes)
        self._models: ConfigOption | None = None

    @property
    def title(self) -> str | None:
        return self.transcript.title

    @property
    def commands(self) -> list[AvailableCommand]:
        """The slash commands the agent offers."""
        return self.transcript.commands

    @property
    def usage(self) -> Usage | None:
        """How full the context is, and what the session has cost."""
        return self.transcript.usage

    @property
    def settings(self) -> list[ConfigOption]:
        """Everything that can be set, with its value."""
        return self.transcript.settings

    @property
    def modes(self) -> Modes | None:
        """The modes; settings of category `mode` count, and win over what older agents say."""
        return self.transcript.modes_shown

    @property
    def models(self) -> ConfigOption | None:
        """The models: the setting of category `model`, or what older agents say."""
        found = next((each for each in self.settings if each.category == "model"), None)
        return found or self._models

    @property
    def background(self) -> list[BackgroundWork]:
        """What goes on beside the turn, as far as the agent tells: those of version 2 may."""
        told = self.transcript.state
        return [] if told is None else told.background or []

    def model_was_set(self, model_id: str) -> None:
        """An agent that has models and no settings works with another one now."""
        self._models = None if self._models is None else self._models.with_value(model_id)

    def last_message_text(self) -> str:
        """The last message of the agent, as plain text."""
        spoken = [message for message in self.transcript.messages if message.role == "agent"]
        return "".join(block.text for block in spoken[-1].content if isinstance(block, TextContent)) if spoken else ""


def check_can_cancel(what: str, part_id: str, part: ToolCall | Terminal | None) -> None:
    """Refuse to cancel a part of the work that the agent has not offered to cancel alone.

    Raises:
        MethodNotFound: It has not.
    """
    # protocol/v2, capabilities of tool calls and terminals: a client MUST NOT cancel what does not advertise `cancel`.
    if part is None or not part.can_cancel:
        raise MethodNotFound(f"the agent does not offer to cancel the {what} {part_id!r} alone; cancel the turn")
