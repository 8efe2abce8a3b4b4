"""What single agents need or do in a way of their own: one table, by the name in their `agentInfo`.

An entry is made for what was seen on the wire of a published agent, with the version it was seen in. What several
agents do is no quirk, and is read where the protocol is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation

__all__ = ["FAILURES", "QUIRKS", "FailureMarker", "Quirks", "failure_in", "quirks_of"]


@dataclass(frozen=True)
class Quirks:
    """How to treat one agent.

    Attributes:
        missing: What reading a missing file gives, where the `Workspace` does not say: an error, or an empty text.
        replays_late: It answers `session/load` first, and repeats what was said in the session afterwards.
    """

    missing: Literal["error", "empty"] = "error"
    replays_late: bool = False


QUIRKS: Mapping[str, Quirks] = {
    # 0.61: any error answer to `fs/read_text_file` is fatal to it, so that it could never create a file. Qwen Code,
    # which began as a copy of it, needs the error (-32002) instead.
    #
    # It answers `session/load` before it has sent the first message of the session, and does not wait for the rest.
    "gemini-cli": Quirks(missing="empty", replays_late=True),
}


@dataclass(frozen=True)
class FailureMarker:
    """What an agent attaches to a turn whose model failed and that ends as `end_turn` all the same.

    Attributes:
        path: Where it stands in `_meta`, of the answer to the prompt or of a `session_info_update`.
        field: Which of its fields says how bad it is.
        failed: The value that means failure; with any other the model works, or works again.
        reasons: The fields that say why.
    """

    path: Sequence[str]
    field: str
    failed: str
    reasons: Sequence[str] = ()


FAILURES: Sequence[FailureMarker] = (
    # codex-acp 2.6 says why in a message to the user.
    FailureMarker(("codex", "threadStatus"), "type", "systemError"),
    # codex-acp 2.6, for clients that declare it, and others for JetBrains.
    FailureMarker(("jetbrains", "air", "sessionFailure"), "severity", "error", ("title", "details")),
)


def failure_in(meta: JsonObject | None, before: str | None = None) -> str | None:
    """Why the model failed by what is attached here, which may be an empty text; None if it works.

    Args:
        meta: What is attached.
        before: The same by what was attached earlier, which holds if nothing is said here.
    """
    for sign in FAILURES:
        said: Any = meta
        for key in sign.path:
            said = cast("JsonObject", said).get(key) if isinstance(said, dict) else None
        if isinstance(said, dict):
            fields = cast("JsonObject", said)
            reasons = (fields.get(name) for name in sign.reasons)
            is_failed = fields.get(sign.field) == sign.failed
            before = ": ".join(each for each in reasons if isinstance(each, str) and each) if is_failed else None
    return before


def quirks_of(info: Implementation | None) -> Quirks:
    """How to treat the agent that introduced itself like this."""
    return Quirks() if info is None else QUIRKS.get(info.name, Quirks())
