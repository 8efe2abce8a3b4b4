"""What the user of an agent wishes done about it while it is used."""

from __future__ import annotations

from dataclasses import dataclass

from duologue.client.login import Login
from duologue.client.reach import Way
from duologue.client.supervise import Restart

__all__ = ["Care"]


@dataclass(frozen=True)
class Care:
    """What is done about an agent that is lost, wants a login, or falls silent.

    Attributes:
        way: How it is reached.
        restart: Whether it is started again, and how often.
        login: How to log in.
        silence: Seconds without a sign of life after which a turn is given up, in two steps.
    """

    way: Way
    restart: Restart | None = None
    login: Login | None = None
    silence: float | None = None
