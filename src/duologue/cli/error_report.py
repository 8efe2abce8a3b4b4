"""Describe errors to the user of the command line, and find their exit codes."""

from __future__ import annotations

import json
from typing import Any, cast

from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.errors import (
    AgentExited,
    AuthenticationRequired,
    ConnectError,
    InternalError,
    MessageTooLarge,
    NotAnAgent,
    ProtocolViolation,
    RequestError,
    ResourceNotFound,
    TurnStalled,
    UnsupportedProtocolVersion,
)

RECORD = "`--record FILE` keeps every message, `--stderr` shows the agent's log"
"""Advice for an agent that fails without a cause."""

MOST_DATA = 500
"""Characters of an error's JSON data that are shown."""


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
    if isinstance(error, ConnectError):
        return error.message
    if not isinstance(error, RequestError) or code_of_error(error) is not ExitCode.AGENT_ERROR:
        return str(error)
    cause = error.detail or _data_of(error.data, error.message)
    text = f"the agent answered with an error: {error.message or type(error).__name__} ({error.code})"
    return f"{text}: {cause}" if cause else text


def next_step(error: Exception) -> str:
    """Return what the user can do about an error that has no explanation in the agent's stderr; may be empty."""
    match error:
        case ConnectError():
            return error.next_step
        case ResourceNotFound(data={"sessionId": _}):
            return "`duologue sessions` lists the sessions that can be continued"
        case TurnStalled():
            return f"`--stall-timeout` allows more time; {RECORD}"
        case TimeoutError():
            return f"`--timeout` allows more time; {RECORD}"
        case ProtocolViolation() | InternalError(detail=None) | AgentExited(stderr=""):
            return RECORD
        case _:
            return ""


def without_stderr(text: str, error: Exception) -> str:
    """Return the text of an error without the agent's stderr, where that is shown anyway."""
    stderr = error.stderr.strip() if isinstance(error, AgentExited) else ""
    return text.replace(f"\n{stderr}", "") if stderr else text


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
