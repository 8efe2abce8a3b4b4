"""Exit codes of `duologue`. Scripts rely on them: a number never changes its meaning."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any, Self, cast

from duologue.errors import (
    AuthenticationRequired,
    MessageTooLarge,
    NotAnAgent,
    ProtocolViolation,
    RequestError,
    TurnStalled,
    UnsupportedProtocolVersion,
)

MOST_DATA = 500
"""Characters of an error's JSON data that are shown."""


class ExitCode(IntEnum):
    """How a command ended: a number, and its description for the user."""

    description: str

    def __new__(cls, number: int, description: str) -> Self:
        """Make a member of the enumeration."""
        code = int.__new__(cls, number)
        code._value_ = number
        code.description = description
        return code

    OK = 0, "the agent answered"
    AGENT_ERROR = 1, "the agent failed, could not be started, or exited"
    USAGE = 2, "the command line is wrong, or needs something this agent does not offer"
    REFUSED = 3, "the agent refused the prompt"
    LIMIT = 4, "the agent reached its limit of tokens or requests"
    DENIED = 5, "the agent was denied a permission, and ended or cancelled the turn"
    TIMEOUT = 6, "the agent did not finish in time, or stalled"
    LOGIN = 7, "the agent requires a login"
    PROTOCOL = 8, "the agent violated the protocol, or supports no common version of it"
    EMPTY_ANSWER = 9, "the turn ended, but the agent sent no answer"
    INTERRUPTED = 130, "interrupted with Ctrl-C, or cancelled"
    BROKEN_PIPE = 141, "stdout was closed by the reader (broken pipe)"


class UsageError(Exception):
    """The command line asks for something impossible; the message says what is possible."""


STOP_CODES = {
    "refusal": ExitCode.REFUSED,
    "max_tokens": ExitCode.LIMIT,
    "max_turn_requests": ExitCode.LIMIT,
    "cancelled": ExitCode.INTERRUPTED,
}
"""Stop reasons that are not a success."""


def code_of_error(error: Exception) -> ExitCode:
    """Return the exit code for an error."""
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
    """Describe an error for the user; an error that the agent sent is marked as such."""
    if not isinstance(error, RequestError) or code_of_error(error) is not ExitCode.AGENT_ERROR:
        return str(error)
    cause = error.detail or _data_of(error.data, error.message)
    text = f"the agent answered with an error: {error.message or type(error).__name__} ({error.code})"
    return f"{text}: {cause}" if cause else text


def _data_of(data: Any, message: str) -> str:
    """Return the data of an error as JSON, unless its message already contains it."""
    fields: list[Any] = list(cast(dict[str, Any], data).values()) if isinstance(data, dict) else []
    is_in_message = any(isinstance(each, str) and each in message for each in fields)
    return json.dumps(data)[:MOST_DATA] if data and isinstance(data, dict | list) and not is_in_message else ""


def answered(error: BaseException | None) -> dict[str, Any] | None:
    """Return the JSON-RPC error that the agent sent and that caused this error; None if there is none."""
    cause = None if error is None else answered(error.__cause__)
    if cause is None and isinstance(error, RequestError):
        return {"code": error.code, "message": error.message, "data": error.data}
    return cause
