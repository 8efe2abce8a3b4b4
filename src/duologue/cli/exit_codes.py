"""What the exit codes of `duologue` mean. Scripts rely on them: a number never changes its meaning."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any, cast

from duologue.errors import (
    AuthenticationRequired,
    MessageTooLarge,
    NotAnAgent,
    ProtocolViolation,
    RequestError,
    TurnStalled,
    UnsupportedProtocolVersion,
)

__all__ = ["DESCRIPTIONS", "ExitCode", "UsageError", "answered", "code_of_error", "code_of_stop", "explain"]


MOST_DATA = 500
"""Characters of an error's data that are shown as JSON."""


class ExitCode(IntEnum):
    """How a command ended, for a script."""

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
    UNREAD = 141


DESCRIPTIONS = {
    ExitCode.ENDED: "the agent answered",
    ExitCode.AGENT_ERROR: "the agent failed, could not be started, or ended by itself",
    ExitCode.USAGE: "the command line was wrong, or asks for what this agent does not offer",
    ExitCode.REFUSED: "the agent refused",
    ExitCode.LIMIT: "the agent ran into a limit of tokens or requests",
    ExitCode.DENIED: "the turn ended or was cancelled by the agent, and something it asked for was not permitted",
    ExitCode.TIMEOUT: "the time was up, or the agent gave no sign of life",
    ExitCode.LOGIN: "the agent wants a login first",
    ExitCode.PROTOCOL: "the agent broke the protocol, or speaks another version of it",
    ExitCode.NOTHING_SAID: "the turn ended and the agent had said nothing",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C, or cancelled",
    ExitCode.UNREAD: "whoever read the output has gone",
}


class UsageError(Exception):
    """The command line asks for something that cannot be; the message says what can."""


def code_of_stop(stop_reason: str | None) -> ExitCode:
    """The exit code for a stop reason; one nobody knows counts as an end."""
    match stop_reason:
        case "refusal":
            return ExitCode.REFUSED
        case "max_tokens" | "max_turn_requests":
            return ExitCode.LIMIT
        case "cancelled":
            return ExitCode.INTERRUPTED
        case _:
            return ExitCode.ENDED


def code_of_error(error: Exception) -> ExitCode:
    """The exit code for what went wrong."""
    match error:
        case UsageError():
            return ExitCode.USAGE
        case TimeoutError() | TurnStalled():
            return ExitCode.TIMEOUT
        case AuthenticationRequired():
            return ExitCode.LOGIN
        case ProtocolViolation() | UnsupportedProtocolVersion() | NotAnAgent() | MessageTooLarge():
            return ExitCode.PROTOCOL
        case _:
            return ExitCode.AGENT_ERROR


def explain(error: Exception) -> str:
    """An error for a person; what the agent said is marked as its own words."""
    if not isinstance(error, RequestError) or code_of_error(error) is not ExitCode.AGENT_ERROR:
        return str(error)
    cause = error.detail or _data_of(error.data, error.message)
    told = f"the agent answered with an error: {error.message or type(error).__name__} ({error.code})"
    return f"{told}: {cause}" if cause else told


def _data_of(data: Any, message: str) -> str:
    """What came with an error and is not text, for a person who has to guess the cause from it."""
    fields: list[Any] = list(cast(dict[str, Any], data).values()) if isinstance(data, dict) else []
    is_said = any(isinstance(each, str) and each in message for each in fields)
    return json.dumps(data)[:MOST_DATA] if data and isinstance(data, dict | list) and not is_said else ""


def answered(error: BaseException | None) -> dict[str, Any] | None:
    """Return the JSON-RPC error that is behind an error of ours, as it came; None if there is none."""
    behind = None if error is None else answered(error.__cause__)
    if behind is None and isinstance(error, RequestError):
        return {"code": error.code, "message": error.message, "data": error.data}
    return behind
