"""Every exception of duologue, in one tree.

    DuologueError
    ├── RequestError              an error answer; crosses the wire whole (code, message, data)
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
    ├── ConnectionLost            the peer is gone, or we had to leave; nothing more will come
    │   ├── InputLimitExceeded         more waiting input than the hard mark allows
    │   ├── OutputLimitExceeded        more waiting output than the hard mark allows
    │   ├── NotAnAgent                 the agent printed something else than the protocol
    │   ├── ResumeFailed               a broken connection could not be taken up again; load the session
    │   └── AgentExited                the agent's process ended
    │       └── CrashLoop                  it was started again and again, and ended each time
    ├── SessionLost               the agent came back after its end, and this session did not
    ├── TurnStalled               a turn in which nothing was heard for too long; it was cancelled
    ├── ModelFailed               a turn that ended as `end_turn` while the agent says that its model failed
    ├── MessageTooLarge           a message over the limit: that call fails; if nobody can be told, the connection ends
    ├── ProtocolViolation         the peer's answer breaks JSON-RPC or the schema
    │   └── DowngradeRequired          the agent was addressed in version 2, and knows version 1 only
    ├── Deadlock                  a handler waits for what only its own end could bring
    ├── EventBufferOverflow       a reader of events was too far behind
    ├── EncodeError               a value of ours that cannot be written as JSON
    ├── StoreError                sessions could not be kept, or not be read back
    │   ├── SessionInUse               the session is open somewhere else
    │   └── StoreFull                  no room to keep more; what was kept is whole
    └── StartError                an agent could not be started, or not be reached
        ├── CommandNotFound            no such command, or it may not be run
        ├── ConnectError               no server at this address, or it refuses us
        └── InitializeTimeout          it runs, but never answered `initialize`

What a handler raises is what the other end catches: a `RequestError` is written with its code, message and data, and
the reader gets the class registered for that code. Any other exception becomes an `InternalError` that names the
exception's class and a reference to our own log, and nothing else.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

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
    "TurnStalled",
    "UnsupportedProtocolVersion",
    "error_for_code",
]


MOST_DETAIL = 2000
"""Characters of a cause that are part of an error's text."""

_DETAILS = ("details", "detail", "message", "reason", "cause", "error", "errorMessage", "description")
"""Where agents put the cause of an error, most telling first."""


class DuologueError(Exception):
    """The root of every error duologue raises on purpose."""


class RequestError(DuologueError):
    """An error answer to a request, sent or received.

    Raise it in a handler to answer with exactly this code, message and data. Codes of your own belong outside
    -32768…-32000, which JSON-RPC reserves.
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
        """What `data` says about the cause, where it is text that the message does not have; at most a page of it.

        Many peers answer "Internal error" and put the reason there, as a string or under one of the usual names.
        """
        text = _text_in(self.data)
        if text is None or text in self.message:
            return None
        return text if len(text) <= MOST_DETAIL else f"{text[:MOST_DETAIL]}… ({len(text):,} characters)"


class ParseError(RequestError):
    """What arrived is not JSON."""

    code = -32700


class InvalidRequest(RequestError):
    """JSON, but not a request that may come here and now."""

    code = -32600


class MethodNotFound(RequestError):
    """Nobody here handles this method, or it was never advertised."""

    code = -32601


class InvalidParams(RequestError):
    """The parameters do not fit the method; the message names the place (`$.prompt[0].text: …`)."""

    code = -32602


class InternalError(RequestError):
    """The other end failed in a way that is nobody else's business."""

    code = -32603


class RequestCancelled(RequestError):
    """The request was cancelled before it had an answer."""

    code = -32800


class AuthenticationRequired(RequestError):
    """The agent wants a login first."""

    code = -32000


class ResourceNotFound(RequestError):
    """The named session, file, terminal or resource does not exist here."""

    code = -32002


class UnsupportedProtocolVersion(RequestError):
    """No version of the protocol that both ends speak (v2 only)."""

    code = -32022


class McpLimitReached(RequestError):
    """MCP over ACP: the client will not carry more at once."""

    code = -33000


class McpServerUnavailable(RequestError):
    """MCP over ACP: the named server is not there."""

    code = -33001


class McpBackendFailed(RequestError):
    """MCP over ACP: the server behind the client failed."""

    code = -33002


def _text_in(data: Any) -> str | None:
    """The first text under a usual name, at most three objects deep."""
    for _ in range(3):
        if isinstance(data, str):
            return data.strip() or None
        if not isinstance(data, dict):
            return None
        fields = cast(dict[str, Any], data)
        data = next((fields[name] for name in _DETAILS if fields.get(name)), None)
    return data.strip() or None if isinstance(data, str) else None


def error_for_code(code: int, message: str, data: Any = None) -> RequestError:
    """The error a peer sent, as the class for its code; an unknown code is a plain `RequestError` that keeps it."""
    cls = RequestError._by_code.get(code, RequestError)
    error = cls.__new__(cls)
    RequestError.__init__(error, message, data=data, code=code)
    return error


class ConnectionLost(DuologueError):
    """The peer is gone, or we had to leave; what waited for an answer will not get one."""


class MessageTooLarge(DuologueError):
    """A message over the size limit. Raise the limit with `max_message_bytes` if such messages are meant."""


class InputLimitExceeded(ConnectionLost):
    """More unhandled input than the hard mark allows, while reading could not be paused."""


class OutputLimitExceeded(ConnectionLost):
    """More unread output than the hard mark allows."""


class NotAnAgent(ConnectionLost):
    """The agent printed pages of something that is not the protocol; the message quotes how it began."""


class ResumeFailed(ConnectionLost):
    """The server no longer has what was missed while the connection was broken; connect anew and load the session."""


class AgentExited(ConnectionLost):
    """The agent's process ended; `exit_code`, `signal` and the last of its stderr say how."""

    def __init__(
        self, message: str, *, exit_code: int | None = None, signal: str | None = None, stderr: str = ""
    ) -> None:
        super().__init__(f"{message}\n{stderr}".rstrip() if stderr else message)
        self.exit_code = exit_code
        self.signal = signal
        self.stderr = stderr


class CrashLoop(AgentExited):
    """The agent was started again as often as is allowed, and ended each time; the last end is quoted."""


class SessionLost(DuologueError):
    """The agent was started again and cannot go on with this session; open another one."""


class TurnStalled(DuologueError):
    """Nothing was heard of a turn for twice the time that was given, and it was cancelled."""


class ModelFailed(DuologueError):
    """A turn ended as `end_turn`, and the agent says in addition that its model failed; the message says why."""


class ProtocolViolation(DuologueError):
    """The peer answered with something JSON-RPC or the schema does not allow."""


class DowngradeRequired(ProtocolViolation):
    """An agent that was addressed in version 2 speaks version 1 only; `answer` is what it said."""

    def __init__(self, message: str, answer: dict[str, Any]) -> None:
        super().__init__(message)
        self.answer = answer


class Deadlock(DuologueError):
    """A handler would wait for an answer that can only be released once that same handler has returned."""


class EventBufferOverflow(DuologueError):
    """A reader of a session's events was too far behind: from here on some are missing. The transcript has them all."""


class EncodeError(DuologueError):
    """A value of ours that JSON cannot express."""


class StoreError(DuologueError):
    """Sessions could not be kept, or not be read back; the message says which and why."""


class SessionInUse(StoreError):
    """The session is open somewhere else: in process `holder`, if that is known."""

    def __init__(self, session_id: str, *, holder: int | None = None) -> None:
        super().__init__(f"session in use{f' by process {holder}' if holder else ''}: {session_id}")
        self.session_id = session_id
        self.holder = holder


class StoreFull(StoreError):
    """No room to keep more. What was kept is whole, and keeping goes on once there is room again."""


class StartError(DuologueError):
    """An agent could not be started or reached, or was no use once started."""


class CommandNotFound(StartError):
    """No such command, or it may not be run."""


class ConnectError(StartError):
    """There is no server at this address, or it refuses us; `status` is the HTTP status it answered with, if it did."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class InitializeTimeout(StartError):
    """The process runs but never answered `initialize`."""
