"""Waiting for agents that replay a session after they have answered the request that loads it."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from duologue.client.quirks import quirks_of

if TYPE_CHECKING:
    from duologue.client.session import ClientSession

QUIET_SECONDS = 0.25
"""Time without an update after which a replay counts as complete: its updates follow each other at once."""

STEP_SECONDS = 0.05
"""Time between two checks; a pause of this program counts as one of them, not as silence of the agent."""

MAX_SECONDS = 2.0
"""The longest wait: an agent that never pauses has begun with something else."""


async def wait_for_late_replay(session: ClientSession) -> None:
    """Wait for the replay of a session that was just loaded, if its agent is known to send it after the response."""
    has_replayed = session._has_replayed if session._is_replaying else len(session.transcript) > 0
    if has_replayed or not quirks_of(session.agent.info).replays_late:
        return
    activity = session.agent._request_handler.activity
    activity.is_used = True
    end, last, quiet = monotonic() + MAX_SECONDS, activity.last(session.id), 0.0
    while quiet < QUIET_SECONDS and monotonic() < end:
        await asyncio.sleep(STEP_SECONDS)
        is_quiet = activity.last(session.id) == last
        last, quiet = activity.last(session.id), quiet + STEP_SECONDS if is_quiet else 0.0
