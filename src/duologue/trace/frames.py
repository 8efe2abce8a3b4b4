"""Frames of a recording with their meaning: kind, method, session, the request that is answered, and problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.errors import InvalidParams
from duologue.recording.format import Entry, FrameDirection
from duologue.schema import v1, v2
from duologue.schema.codec import decode, decode_result
from duologue.schema.lenient_errors import Defaulted

FrameKind: TypeAlias = Literal["request", "response", "error", "notification", "invalid", "stderr", "exit", "gap"]
"""Kinds of entries; an error is a response, too."""

MAX_OPEN_REQUESTS = 100_000
"""Requests whose responses are waited for; a recording with more is an attack on the memory of its reader."""

_SCHEMAS = {1: v1, 2: v2}


class Problem(Struct, frozen=True):
    """A value that does not match the schema.

    Attributes:
        path: JSON path of the value inside the frame, such as `$.params.sessionId`.
        message: What is wrong with it.
        is_tolerated: True if readers must accept it all the same.
    """

    path: str
    message: str
    is_tolerated: bool = False


class TracedFrame(Struct, frozen=True, kw_only=True):
    """An entry of a recording with its meaning.

    Attributes:
        number: Number of the entry, from 1.
        t: Seconds since the start of the recording.
        dir: The receiver, `to_agent` or `to_client`; empty for what is not a frame.
        kind: What it is.
        method: Method of the message, or of the request that it answers; empty if unknown.
        update: Kind of a session update, such as `agent_message_chunk`.
        id: Id of a request or response.
        session: Session that it is about; empty if unknown.
        size: Length of the frame in bytes.
        answers: Number of the request that this response answers.
        latency: Seconds from the request to this response.
        problems: What does not match the schema.
        version: Version of the protocol; 1 before it is known.
        model: Class of the schema for its `params`, `result` or `error`; None if the schema does not know the method.
        entry: The entry itself.
    """

    number: int
    t: float
    kind: FrameKind
    entry: Entry
    dir: FrameDirection | Literal[""] = ""
    method: str = ""
    update: str = ""
    id: int | str | None = None
    session: str = ""
    size: int = 0
    answers: int | None = None
    latency: float | None = None
    problems: tuple[Problem, ...] = ()
    version: int = 1
    model: Any = None


class _Update(Struct, frozen=True, rename="camel"):
    session_update: str = ""


class _Params(Struct, rename="camel"):
    session_id: str = ""
    update: _Update = _Update()


class _Message(Struct):
    id: int | str | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Opened(Struct, rename="camel"):
    protocol_version: int = 1


class _Request(Struct):
    number: int
    t: float
    method: str
    session: str


_decode_message = msgspec.json.Decoder(_Message).decode
_decode_params = msgspec.json.Decoder(_Params).decode
_decode_opened = msgspec.json.Decoder(_Opened).decode


class Tracer:
    """Gives the entries of one recording their meaning, in order and in bounded memory.

    Attributes:
        open_requests: Number of requests without a response so far.
    """

    def __init__(self) -> None:
        self._number = 0
        self._version = 1
        self._open: dict[tuple[str, int | str | None], _Request] = {}

    @property
    def open_requests(self) -> int:
        """Number of requests without a response so far."""
        return len(self._open)

    def forget(self) -> None:
        """Forget the open requests and the version, because another connection follows."""
        self._open.clear()
        self._version = 1

    def trace(self, entries: Iterable[Entry]) -> Iterator[TracedFrame]:
        """Yield a frame for each entry."""
        for entry in entries:
            self._number += 1
            yield self._frame(entry)

    def _frame(self, entry: Entry) -> TracedFrame:
        if entry.gap:
            self._open.clear()  # their responses may be among the missing frames
            return self._plain(entry, "gap")
        if entry.stderr is not None:
            return self._plain(entry, "stderr")
        if entry.exit_code is not None:
            return self._plain(entry, "exit")
        if not isinstance(entry.frame, Raw):
            return self._plain(entry, "invalid", entry.invalid or "not JSON")
        frame = bytes(entry.frame)
        try:
            message = _decode_message(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._plain(entry, "invalid", "not a JSON-RPC message")
        if isinstance(message.method, str):
            return self._call(entry, message, message.method, len(frame))
        if message.id is not UNSET:
            return self._response(entry, message, len(frame))
        return self._plain(entry, "invalid", "not a JSON-RPC message: neither `method` nor `id`")

    def _plain(self, entry: Entry, kind: FrameKind, problem: str = "") -> TracedFrame:
        problems = (Problem("$", problem),) if problem else ()
        size = len(bytes(entry.frame)) if isinstance(entry.frame, Raw) else len(entry.text or "")
        return TracedFrame(
            number=self._number, t=entry.t, kind=kind, entry=entry, dir=entry.dir, size=size, problems=problems
        )

    def _call(self, entry: Entry, message: _Message, method: str, size: int) -> TracedFrame:
        is_request = message.id is not UNSET
        about = _about(message.params)
        schema: Any = _SCHEMAS.get(self._version, v1)
        known = (schema.METHODS if is_request else schema.NOTIFICATIONS).get(method)
        params = message.params if isinstance(message.params, Raw) else Raw(b"{}")
        problems = () if known is None else _problems(known.params, params, "$.params", is_result=False)
        if is_request and len(self._open) < MAX_OPEN_REQUESTS:
            self._open[entry.dir, _id(message)] = _Request(self._number, entry.t, method, about.session_id)
        return TracedFrame(
            number=self._number, t=entry.t, kind="request" if is_request else "notification", entry=entry,
            dir=entry.dir, method=method, update=about.update.session_update, id=_id(message), session=about.session_id,
            size=size, problems=problems, version=self._version,
            model=None if known is None else known.params,
        )  # fmt: skip

    def _response(self, entry: Entry, message: _Message, size: int) -> TracedFrame:
        asked = "to_agent" if entry.dir == "to_client" else "to_client"
        request = self._open.pop((asked, _id(message)), None)
        kind: FrameKind = "response" if isinstance(message.result, Raw) else "error"
        problems: tuple[Problem, ...] = ()
        model: Any = v1.Error if kind == "error" else None
        if request is None:
            problems = (Problem("$.id", "no request with this id is open"),)
        elif isinstance(message.result, Raw):
            if request.method == "initialize":
                self._version = _opened_version(message.result)
            schema: Any = _SCHEMAS.get(self._version, v1)
            known = schema.METHODS.get(request.method)
            model = None if known is None else known.result
            problems = () if known is None else _problems(model, message.result, "$.result", is_result=True)
        return TracedFrame(
            number=self._number, t=entry.t, kind=kind, entry=entry, dir=entry.dir, id=_id(message), size=size,
            method="" if request is None else request.method,
            session=(request.session if request is not None else "") or _about(message.result).session_id,
            answers=None if request is None else request.number,
            latency=None if request is None else round(entry.t - request.t, 6), problems=problems,
            version=self._version, model=model,
        )  # fmt: skip


def _id(message: _Message) -> int | str | None:
    return None if isinstance(message.id, UnsetType) else message.id


def _about(part: Raw | UnsetType) -> _Params:
    """Return what params or a result say about their session."""
    try:
        return _decode_params(part) if isinstance(part, Raw) else _Params()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Params()


def _opened_version(result: Raw) -> int:
    try:
        return _decode_opened(result).protocol_version
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 1


def _problems(kind: Any, value: Raw, at: str, *, is_result: bool) -> tuple[Problem, ...]:
    """Return what does not match the schema."""
    found: list[Problem] = []

    def note(defaulted: Defaulted) -> None:
        found.append(Problem(at + defaulted.path.removeprefix("$"), defaulted.problem, is_tolerated=True))

    try:
        (decode_result if is_result else decode)(kind, value, note)
    except InvalidParams as error:
        path, _, message = str(error).partition(": ")
        found.append(Problem(at + path.removeprefix("$"), message) if path.startswith("$") else Problem(at, str(error)))
    return tuple(found)
