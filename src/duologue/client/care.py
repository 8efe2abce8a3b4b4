"""What the user of an agent wishes done about it while it is used."""

from __future__ import annotations

from dataclasses import dataclass

from duologue.client.login import Login
from duologue.client.reach import Way
from duologue.client.supervise import Restart
from duologue.conversation.transcript import MAX_TRANSCRIPT_BYTES

__all__ = ["Care"]


@dataclass(frozen=True)
class Care:
    """What is done about an agent that is lost, wants a login, or falls silent.

    Attributes:
        way: How it is reached.
        restart: Whether a lost agent is started again when it is next needed, and how often; without it, never.
        login: Chooses among the ways to log in when the agent wants a login; without it, that is an error.
        silence: Seconds after which a turn without a sign of life is told (`Silence`), then cancelled after as many.
        max_transcript_bytes: The memory that the transcript of one session may take; `None`: no limit.
    """

    way: Way
    restart: Restart | None = None
    login: Login | None = None
    silence: float | None = None
    max_transcript_bytes: int | None = MAX_TRANSCRIPT_BYTES
