"""What the exit codes of `duologue run` mean. Scripts rely on them: a number never changes its meaning."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Code", "code_of_stop"]


class Code(IntEnum):
    """How a turn ended, for a script."""

    ENDED = 0
    AGENT_ERROR = 1
    USAGE = 2
    REFUSED = 3
    LIMIT = 4
    DENIED = 5
    TIMEOUT = 6
    LOGIN = 7
    PROTOCOL = 8
    NOTHING_SAID = 9
    INTERRUPTED = 130


MEANINGS = {
    Code.ENDED: "the agent answered",
    Code.AGENT_ERROR: "the agent failed, could not be started, or ended by itself",
    Code.USAGE: "the command line was wrong",
    Code.REFUSED: "the agent refused",
    Code.LIMIT: "the agent ran into a limit of tokens or requests",
    Code.DENIED: "the agent answered, but something it asked for was not permitted",
    Code.TIMEOUT: "the time was up",
    Code.LOGIN: "the agent wants a login first",
    Code.PROTOCOL: "the agent broke the protocol, or speaks another version of it",
    Code.NOTHING_SAID: "the agent ended without saying anything",
    Code.INTERRUPTED: "interrupted",
}


def code_of_stop(stop_reason: str | None) -> Code:
    """The exit code for a stop reason; one nobody knows counts as an end."""
    match stop_reason:
        case "refusal":
            return Code.REFUSED
        case "max_tokens" | "max_turn_requests":
            return Code.LIMIT
        case "cancelled":
            return Code.INTERRUPTED
        case _:
            return Code.ENDED
