"""What single agents need or do in a way of their own: one table, by the name in their `agentInfo`.

An entry is made for what was seen on the wire of a published agent, with the version it was seen in. What several
agents do is no quirk, and is read where the protocol is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from duologue.conversation.setup import Party

__all__ = ["QUIRKS", "Quirks", "quirks_of"]


@dataclass(frozen=True)
class Quirks:
    """How to treat one agent.

    Attributes:
        missing: What reading a missing file gives, where the `Workspace` does not say: an error, or an empty text.
    """

    missing: Literal["error", "empty"] = "error"


QUIRKS: Mapping[str, Quirks] = {
    # 0.61: any error answer to `fs/read_text_file` is fatal to it, so that it could never create a file. Qwen Code,
    # which began as a copy of it, needs the error (-32002) instead.
    "gemini-cli": Quirks(missing="empty"),
}


def quirks_of(info: Party | None) -> Quirks:
    """How to treat the agent that introduced itself like this."""
    return Quirks() if info is None else QUIRKS.get(info.name, Quirks())
