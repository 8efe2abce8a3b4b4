"""Every exception of duologue, in one tree.

    DuologueError
    ├── RequestError              an error response; code, message and data cross the wire unchanged
    │   ├── ParseError                 -32700
    │   ├── InvalidRequest             -32600
    │   ├── MethodNotFound             -32601
    │   ├── InvalidParams              -32602
    │   ├── InternalError              -32603
    │   ├── RequestCancelled           -32800
    │   ├── AuthenticationRequired     -32000
    │   ├── ResourceNotFound           -32002
    │   ├── UnsupportedProtocolVersion -32022
    │   ├── McpLimitReached            -33000
    │   ├── McpServerUnavailable       -33001
    │   └── McpBackendFailed           -33002
    ├── ConnectionLost            the connection ended; nothing more arrives
    │   ├── InputLimitExceeded         more unhandled input than the hard limit allows
    │   ├── OutputLimitExceeded        more unsent output than the hard limit allows
    │   ├── NotAnAgent                 the agent printed output that is not the protocol
    │   ├── ResumeFailed               a broken connection could not be resumed; load the session
    │   └── AgentExited                the agent's process ended
    │       └── CrashLoop                  the agent was restarted as often as allowed, and ended each time
    ├── SessionLost               the agent was restarted, and cannot continue this session
    ├── TurnStalled               a turn without activity for too long; it was cancelled
    ├── ModelFailed               a turn that ended as `end_turn` although the agent reports that its model failed
    ├── TurnIncomplete            a turn was refused, cut off, cancelled, or denied a permission
    │   └── TurnTimeout                no answer in the time that the caller gave; the turn was cancelled
    ├── MessageTooLarge           a message over the limit fails its request, or the connection if that is unknown
    ├── ProtocolViolation         the peer's response breaks JSON-RPC or the schema
    │   └── DowngradeRequired          the agent got an `initialize` of version 2, and knows version 1 only
    ├── Deadlock                  a handler waits for something that needs this handler to return first
    ├── EventBufferOverflow       a reader of events was too slow
    ├── EncodeError               a value cannot be written as JSON
    ├── StoreError                sessions could not be saved or read
    │   ├── SessionInUse               the session is open elsewhere
    │   └── StoreFull                  no space to save more; what was saved is intact
    └── StartError                an agent could not be started or reached
        ├── CommandNotFound            the command does not exist or is not executable
        ├── ConnectError               no server at this URL, or it rejects the connection
        └── InitializeTimeout          the agent runs, but did not answer `initialize`

An exception raised in a handler is raised at the peer: a `RequestError` is sent with its code, message and data, and
the receiver raises the class registered for that code. Any other exception becomes an `InternalError` that names the
class of the exception and a reference to the log of the sender, and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar, cast

# A library logs nothing until the program configures logging; whatever logs is loaded together with this module.
logging.getLogger("duologue").addHandler(logging.NullHandler())

__all__ = [
    "AgentExited",
    "AuthenticationRequired",
    "CommandNotFound",
    "ConnectError",
    "ConnectionLost",
    "CrashLoop",
    "Deadlock",
    "DowngradeRequired",
    "DuologueError",
    "EncodeError",
    "EventBufferOverflow",
    "InitializeTimeout",
    "InputLimitExceeded",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "McpBackendFailed",
    "McpLimitReached",
    "McpServerUnavailable",
    "MessageTooLarge",
    "MethodNotFound",
    "ModelFailed",
    "NotAnAgent",
    "OutputLimitExceeded",
    "ParseError",
    "ProtocolViolation",
    "RequestCancelled",
    "RequestError",
    "ResourceNotFound",
    "ResumeFailed",
    "SessionInUse",
    "SessionLost",
    "StartError",
    "StoreError",
    "StoreFull",
    "TurnIncomplete",
    "TurnStalled",
    "TurnTimeout",
    "UnsupportedProtocolVersion",
    "error_for_code",
]


MAX_DETAIL = 2000
"""Characters of a detail that are part of an error's text."""

_DETAILS = ("details", "detail", "message", "reason", "cause", "error", "errorMessage", "description")
"""Keys under which agents put the cause of an error, the most specific first."""


class DuologueError(Exception):
    """Base class of all errors that duologue raises."""


class RequestError(DuologueError):
    """An error response to a request, sent or received.

    Raise it in a handler to answer with exactly this code, message and data. Your own codes must lie outside
    -32768…-32000, which JSON-RPC reserves.

    Attributes:
        code: The JSON-RPC error code.
        message: The text of the error.
        data: Any further JSON value, or `None`.
    """

    code: int = -32603
    _by_code: ClassVar[dict[int, type[RequestError]]] = {}

    def __init__(self, message: str = "", *, data: Any = None, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        if code is not None:
            self.code = code

    def __init_subclass__(cls) -> None:
        if "code" in cls.__dict__:
            RequestError._by_code[cls.code] = cls

    def __str__(self) -> str:
        shown = self.message or type(self).__name__
        return shown if self.detail is None else f"{shown}: {self.detail}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r}, code={self.code})"

    @property
    def detail(self) -> str | None:
        """The cause of the error in `data`, if it is text that the message does not contain; at most a page of it.

        Many peers answer "Internal error" and put the reason into `data`, as a string or under one of the usual keys.
        """
        text = _text_in(self.data)
        if text is None or text in self.message:
            return None
        return text if len(text) <= MAX_DETAIL else f"{text[:MAX_DETAIL]}… ({len(text):,} characters)"


class ParseError(RequestError):
    """The received message is not JSON."""

    code = -32700


class InvalidRequest(RequestError):
    """The received JSON is not a valid request, or not one that is allowed now."""

    code = -32600


class MethodNotFound(RequestError):
    """The peer does not handle this method, or did not advertise it."""

    code = -32601


class InvalidParams(RequestError):
    """The parameters do not match the method; the message names the path (`$.prompt[0].text: …`)."""

    code = -32602


class InternalError(RequestError):
    """Unhandled exception in the peer; details are only in its log."""

    code = -32603


class RequestCancelled(RequestError):
    """The request was cancelled before it was answered."""

    code = -32800


class AuthenticationRequired(RequestError):
    """The agent requires authentication first."""

    code = -32000


class ResourceNotFound(RequestError):
    """The session, file, terminal or resource does not exist."""

    code = -32002


class UnsupportedProtocolVersion(RequestError):
    """The two ends have no protocol version in common (v2 only)."""

    code = -32022


class McpLimitReached(RequestError):
    """MCP over ACP: the client accepts no further connections or messages at the moment."""

    code = -33000


class McpServerUnavailable(RequestError):
    """MCP over ACP: the server does not exist or is not running."""

    code = -33001


class McpBackendFailed(RequestError):
    """MCP over ACP: the client's MCP server failed."""

    code = -33002


def _text_in(data: Any) -> str | None:
    """Return the first text under a usual key, at most three objects deep."""
    for _ in range(3):
        if isinstance(data, str):
            return data.strip() or None
        if not isinstance(data, dict):
            return None
        fields = cast(dict[str, Any], data)
        data = next((fields[name] for name in _DETAILS if fields.get(name)), None)
    return data.strip() or None if isinstance(data, str) else None


def error_for_code(code: int, message: str, data: Any = None) -> RequestError:
    """Return an error that a peer sent, as the class for its code; an unknown code gives a plain `RequestError`."""
    cls = RequestError._by_code.get(code, RequestError)
    error = cls.__new__(cls)
    RequestError.__init__(error, message, data=data, code=code)
    return error


class ConnectionLost(DuologueError):
    """The connection ended; requests that wait for a response will not get one."""


class MessageTooLarge(DuologueError):
    """A message is over the size limit. Raise `max_message_bytes` if such messages are expected."""


class InputLimitExceeded(ConnectionLost):
    """More input waits to be handled than the hard limit allows, while reading could not be paused."""


class OutputLimitExceeded(ConnectionLost):
    """More output waits for a slow peer than the hard limit allows."""


class NotAnAgent(ConnectionLost):
    """The program printed too much output that is not the protocol; the message quotes its first line."""


class ResumeFailed(ConnectionLost):
    """The server no longer has the messages missed while the connection was broken; connect and load the session."""


class AgentExited(ConnectionLost):
    """The agent's process ended.

    Attributes:
        exit_code: Its exit code, if it ended by itself.
        signal: The name of the signal that ended it, if one did.
        stderr: The last lines of its stderr.
    """

    def __init__(
        self, message: str, *, exit_code: int | None = None, signal: str | None = None, stderr: str = ""
    ) -> None:
        super().__init__(f"{message}\n{stderr}".rstrip() if stderr else message)
        self.exit_code = exit_code
        self.signal = signal
        self.stderr = stderr


class CrashLoop(AgentExited):
    """The agent was restarted as often as allowed, and ended each time; the last exit is described."""


class SessionLost(DuologueError):
    """The agent was restarted and cannot continue this session; open another one."""


class TurnStalled(DuologueError):
    """A turn had no activity for twice the stall timeout, and was cancelled."""


class ModelFailed(DuologueError):
    """A turn ended as `end_turn` although the agent reports that its model failed; the message says why."""


class TurnIncomplete(DuologueError):
    """A turn was refused, cut off at a limit, cancelled, or denied a permission; `check=False` accepts that.

    Attributes:
        text: The text of the agent until then.
        stop_reason: How the turn ended; `None` if it is not known.
        denied: What the client did not permit.
    """

    def __init__(
        self, message: str, *, text: str = "", stop_reason: str | None = None, denied: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.text = text
        self.stop_reason = stop_reason
        self.denied = list(denied)


class TurnTimeout(TurnIncomplete):
    """The agent did not answer in the time that the caller gave; the turn was cancelled."""


class ProtocolViolation(DuologueError):
    """The peer sent a response that JSON-RPC or the schema does not allow."""


class DowngradeRequired(ProtocolViolation):
    """The agent got an `initialize` of version 2 and speaks version 1 only; `answer` is its response."""

    def __init__(self, message: str, answer: dict[str, Any]) -> None:
        super().__init__(message)
        self.answer = answer


class Deadlock(DuologueError):
    """A handler would wait for a response that can only be released after this handler has returned."""


class EventBufferOverflow(DuologueError):
    """A reader of a session's events was too slow, and events are missing from here on; the transcript has them all."""


class EncodeError(DuologueError):
    """A value cannot be written as JSON."""


class StoreError(DuologueError):
    """Sessions could not be saved or read; the message says which and why."""


class SessionInUse(StoreError):
    """The session is open elsewhere: in the process with the id `holder`, if that is known."""

    def __init__(self, session_id: str, *, holder: int | None = None) -> None:
        super().__init__(f"session in use{f' by process {holder}' if holder else ''}: {session_id}")
        self.session_id = session_id
        self.holder = holder


class StoreFull(StoreError):
    """No space to save more. What was saved is intact, and saving continues once there is space again."""


class StartError(DuologueError):
    """An agent could not be started or reached, or could not be used."""


class CommandNotFound(StartError):
    """The command does not exist or is not executable."""


class ConnectError(StartError):
    """There is no server at this URL, or it rejects the connection.

    Attributes:
        message: The cause, with its code.
        status: The HTTP status, if there was one.
        next_step: What the user can do; it is also at the end of the text.
    """

    def __init__(self, message: str, *, status: int | None = None, next_step: str = "") -> None:
        super().__init__(f"{message}; {next_step}" if next_step else message)
        self.message = message
        self.status = status
        self.next_step = next_step


class InitializeTimeout(StartError):
    """The agent runs, but did not answer `initialize` in time."""
