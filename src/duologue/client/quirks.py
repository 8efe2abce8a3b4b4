"""Deviations of single published agents from the protocol, by the name in their `agentInfo`.

Each entry was seen on the wire, in the version that its comment names. What several agents do is no quirk and is
handled in `duologue.protocol`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation

if TYPE_CHECKING:
    from duologue.client.session import ClientSession

QUIET_SECONDS = 0.25
"""Time without an update after which a replay counts as complete: its updates follow each other at once."""

STEP_SECONDS = 0.05
"""Time between two checks; a pause of this program counts as one of them, not as silence of the agent."""

MAX_SECONDS = 2.0
"""The longest wait: an agent that never pauses has begun with something else."""


class Quirks(Struct, frozen=True):
    """Deviations of one agent.

    Attributes:
        missing: Result of reading a missing file, unless the `Workspace` sets it: an error, or an empty text.
        replays_late: The agent answers `session/load` first and replays the session afterwards.
        pulls_steering: The agent asks for texts to take into the running turn, without advertising that it does.
    """

    missing: Literal["error", "empty"] = "error"
    replays_late: bool = False
    pulls_steering: bool = False


QUIRKS: Mapping[str, Quirks] = {
    # 0.61: any error in response to `fs/read_text_file` ends its turn, so that it could never create a file. Qwen Code,
    # which began as a copy of it, needs the error (-32002) instead.
    #
    # It answers `session/load` before it sends the first message of the session.
    "gemini-cli": Quirks(missing="empty", replays_late=True),
    # 0.21: it sends `craft/drainMidTurnQueue` after each round of tool calls.
    "qwen-code": Quirks(pulls_steering=True),
}


class FailureMarker(Struct, frozen=True):
    """How an agent marks, in `_meta`, that the model failed in a turn that ends with `end_turn`.

    Attributes:
        path: Keys that lead to the marker in `_meta` of the prompt's response or of a `session_info_update`.
        field: Field of the marker that holds the state.
        failed: Value of that field that means failure; any other one means that the model works, or works again.
        reasons: Fields that hold the reason.
    """

    path: Sequence[str]
    field: str
    failed: str
    reasons: Sequence[str] = ()


FAILURES: Sequence[FailureMarker] = (
    # codex-acp 2.6 sends the reason as a message to the user.
    FailureMarker(("codex", "threadStatus"), "type", "systemError"),
    # codex-acp 2.6, for clients that declare it, and others for JetBrains.
    FailureMarker(("jetbrains", "air", "sessionFailure"), "severity", "error", ("title", "details")),
)


def failure_in(meta: JsonObject | None, before: str | None = None) -> str | None:
    """Return why the model failed, which may be an empty text; `None` if it works.

    Args:
        meta: `_meta` of a message.
        before: Result of the message before, which stays if this one has no marker.
    """
    for marker in FAILURES if meta else ():
        value: Any = meta
        for key in marker.path:
            value = cast("JsonObject", value).get(key) if isinstance(value, dict) else None
        if isinstance(value, dict):
            fields = cast("JsonObject", value)
            reasons = (fields.get(name) for name in marker.reasons)
            is_failed = fields.get(marker.field) == marker.failed
            before = ": ".join(each for each in reasons if isinstance(each, str) and each) if is_failed else None
    return before


def quirks_of(info: Implementation | None) -> Quirks:
    """Return the deviations of the agent with this name."""
    return Quirks() if info is None else QUIRKS.get(info.name, Quirks())


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
