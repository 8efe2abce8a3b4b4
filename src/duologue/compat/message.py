"""A decoded message as the rules see it, and what is remembered of requests until they are answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

import msgspec

from duologue.compat.json_access import as_object, objects
from duologue.conversation.content import merge_neighbours
from duologue.jsonrpc.messages import Id
from duologue.schema.base import JsonObject, JsonValue

Part: TypeAlias = Literal["params", "result", "error"]

Target: TypeAlias = tuple[Part, str]
"""The part of a message and its method; errors are the same for all methods, and their method is empty."""

CredentialsFor: TypeAlias = Callable[[str], Mapping[str, str] | None]
"""Returns the credentials for the id of an authentication method, or None."""

MAX_TURN_BYTES = 4 * 1024 * 1024
"""Text of one turn that is remembered: far more than a person reads, far less than a host's memory."""

MAX_SESSIONS = 64
"""Sessions whose config options are remembered; a client has a few open."""

MAX_OPTIONS_BYTES = 256 * 1024
"""Size of the config options that are remembered of one session: a hundred models with long descriptions."""

MAX_TOOL_CALLS = 256
"""Tool calls that are remembered; few run at the same time."""

MAX_INPUT_BYTES = 16 * 1024
"""Size of the input that is remembered of one tool call."""

REPEATED = ("title", "kind", "status", "rawInput")
"""The members that are remembered of a tool call."""

K = TypeVar("K")
V = TypeVar("V")


class RecentEntries(dict[K, V]):
    """A dict that drops its oldest entry when it is full; an entry that is set again is the newest."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        if len(self) >= self._limit:
            del self[next(iter(self))]
        super().__setitem__(key, value)


class TurnText:
    """The content that the agent sent in one turn, unless it exceeds `MAX_TURN_BYTES`."""

    def __init__(self) -> None:
        self._blocks: list[JsonObject] = []
        self._capacity = MAX_TURN_BYTES

    def add(self, block: JsonObject) -> None:
        """Add a block that was streamed."""
        self._capacity -= len(msgspec.json.encode(block))
        if self._capacity >= 0:
            self._blocks.append(dict(block))  # rules change the block itself
        else:
            self._blocks.clear()

    @property
    def is_whole(self) -> bool:
        """True if no block was dropped."""
        return self._capacity >= 0

    def blocks(self) -> list[JsonObject]:
        """Return all blocks, with neighbouring plain text joined."""
        return _merged(self._blocks)

    def repeats(self, blocks: list[JsonObject]) -> bool:
        """Return True if these blocks repeat what was streamed, apart from whitespace at the edges."""
        return self.is_whole and bool(self._blocks) and _essence(self._blocks) == _essence(blocks)


def _merged(blocks: list[JsonObject]) -> list[JsonObject]:
    def is_plain(block: JsonObject) -> bool | None:
        return True if block.keys() == {"type", "text"} and isinstance(block["text"], str) else None

    def merge(run: list[JsonObject]) -> JsonObject:
        return {"type": "text", "text": "".join(block["text"] for block in run)}

    return merge_neighbours(blocks, is_plain, merge)


def _essence(blocks: list[JsonObject]) -> list[JsonObject]:
    texts = [(block, block.get("text")) for block in _merged(blocks)]
    parts = [{**block, "text": text.strip()} if isinstance(text, str) else block for block, text in texts]
    return [part for part in parts if part.get("text") != ""]


@dataclass(slots=True, eq=False)
class Request:
    """The parts of a request, in today's form, that the rules for its answer need.

    Attributes:
        options: Ids and kinds of the options that a permission request offered.
        change: The config option and the value that the request sets.
        text: The content of the turn that a prompt started.
    """

    method: str = ""
    session_id: str = ""
    options: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    change: tuple[str, JsonValue] = ("", None)
    text: TurnText = field(default_factory=TurnText)

    @classmethod
    def of(cls, message: OpenMessage) -> Request:
        """Return what is remembered of this request."""
        fields = message.fields
        offered = [(option.get("optionId"), option.get("kind")) for option in objects(fields.get("options"))]
        return cls(
            message.method,
            str(fields.get("sessionId", "")),
            [(id, str(kind)) for id, kind in offered if isinstance(id, str)],
            (str(fields.get("configId", "")), fields.get("value")),
        )


NO_REQUEST = Request()
"""Stands for the request of a message that is not an answer."""


@dataclass(slots=True)
class PeerContext:
    """The host's configuration, and what was last seen of sessions and tool calls.

    Attributes:
        dialect: The peer's dialect, if it is known.
        default_cwd: The directory of sessions that are loaded without one.
        credentials: Returns the credentials for an authentication method.
        modes: The modes that every session of the agent has, in today's form: those in the agent's capabilities, or
            the host's own.
        cwds: Directories of sessions that are being loaded without one.
        config_options: The config options last seen, by session.
        tool_calls: Title, kind, status and input of tool calls, by session and id.
    """

    dialect: str | None = None
    default_cwd: str | None = None
    credentials: CredentialsFor | None = None
    modes: list[JsonObject] = field(default_factory=list[JsonObject])
    cwds: RecentEntries[str, str] = field(default_factory=lambda: RecentEntries(MAX_SESSIONS))
    config_options: RecentEntries[str, list[JsonObject]] = field(default_factory=lambda: RecentEntries(MAX_SESSIONS))
    tool_calls: RecentEntries[tuple[str, str], JsonObject] = field(
        default_factory=lambda: RecentEntries(MAX_TOOL_CALLS)
    )

    def remember_tool_call(self, session_id: str, update: JsonObject) -> None:
        """Remember what every later update of this call must repeat for a peer that only knows whole tool calls."""
        key = session_id, str(update.get("toolCallId"))
        values = {name: update[name] for name in REPEATED if update.get(name) is not None}
        if len(msgspec.json.encode(values.get("rawInput"))) > MAX_INPUT_BYTES:
            del values["rawInput"]
        self.tool_calls[key] = {**self.tool_calls.get(key, {}), **values}

    def remember_options(self, session_id: str, options: list[JsonObject]) -> None:
        """Remember the list last seen; one that is too long removes the previous one."""
        if len(msgspec.json.encode(options)) <= MAX_OPTIONS_BYTES:
            self.config_options[session_id] = options
        else:
            self.config_options.pop(session_id, None)


@dataclass(slots=True)
class OpenMessage:
    """One decoded message.

    Attributes:
        method: The method; of a result, the method it answers; of an error, empty.
        body: The params, the result or the error, as plain JSON; rules change it in place or replace it.
        request: The request that an answer belongs to.
        before: Updates that have to be delivered before the message.
        is_dropped: True if the message itself is not delivered.
    """

    part: Part
    id: Id | None
    method: str
    body: JsonValue
    known: PeerContext
    request: Request = NO_REQUEST
    before: list[JsonObject] = field(default_factory=list[JsonObject])
    is_dropped: bool = False

    @property
    def target(self) -> Target:
        """The key under which its rules are found."""
        return self.part, self.method

    @property
    def fields(self) -> JsonObject:
        """The body as an object."""
        return as_object(self.body)
