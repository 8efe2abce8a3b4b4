"""Session state that is available without a request to the agent."""

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
    """State of a session, as far as the agent has reported it.

    Attributes:
        transcript: Messages, tool calls and plans so far, limited by `connect(max_transcript_bytes=…)`.
    """

    def __init__(self, max_transcript_bytes: int | None = MAX_TRANSCRIPT_BYTES) -> None:
        self._max_transcript_bytes = max_transcript_bytes
        self.transcript = Transcript(max_transcript_bytes)
        self._models: ConfigOption | None = None

    @property
    def title(self) -> str | None:
        """Title of the session."""
        return self.transcript.title

    @property
    def commands(self) -> list[AvailableCommand]:
        """Slash commands that the agent offers."""
        return self.transcript.commands

    @property
    def usage(self) -> Usage | None:
        """Size of the context and cost of the session, as reported last."""
        return self.transcript.usage

    @property
    def settings(self) -> list[ConfigOption]:
        """Config options with their values."""
        return self.transcript.settings

    @property
    def modes(self) -> Modes | None:
        """Modes: the config option of category `mode`, or else the modes of the session."""
        return self.transcript.modes_shown

    @property
    def models(self) -> ConfigOption | None:
        """Models: the config option of category `model`, or else the models that older agents send."""
        found = next((each for each in self.settings if each.category == "model"), None)
        return found or self._models

    @property
    def background(self) -> list[BackgroundWork]:
        """Work that goes on in addition to the turn, which only agents of version 2 report."""
        reported = self.transcript.state
        return [] if reported is None else reported.background or []

    def _apply_model(self, model_id: str) -> None:
        """Store the model that was set at an agent that has models and no config options."""
        self._models = None if self._models is None else self._models.with_value(model_id)

    def last_message_text(self) -> str:
        """Return the last message of the agent as plain text."""
        sent = [message for message in self.transcript.messages if message.role == "agent"]
        return "".join(block.text for block in sent[-1].content if isinstance(block, TextContent)) if sent else ""


def check_can_cancel(what: str, part_id: str, part: ToolCall | Terminal | None) -> None:
    """Check that the agent offers to cancel one tool call or terminal alone.

    Raises:
        MethodNotFound: It does not.
    """
    # protocol/v2, capabilities of tool calls and terminals: a client MUST NOT cancel what does not advertise `cancel`.
    if part is None or not part.can_cancel:
        raise MethodNotFound(f"the agent does not offer to cancel the {what} {part_id!r} alone; cancel the turn")
