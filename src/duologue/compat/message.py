"""A message opened for the rules, and what is kept of a request until its answer comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec

from duologue.compat.json_access import JsonObject, JsonValue, as_object, objects
from duologue.conversation.content import merge_neighbours
from duologue.jsonrpc.messages import Id

__all__ = ["LRU", "NOT_ASKED", "CredentialsFor", "OpenMessage", "Part", "PeerContext", "Place", "Request", "TurnText"]

Part: TypeAlias = Literal["params", "result", "error"]

Place: TypeAlias = tuple[Part, str]
"""Which body of which method; errors are the same for all methods and have an empty one."""

CredentialsFor: TypeAlias = Callable[[str], Mapping[str, str] | None]
"""The credentials for an authentication method by its id, or none."""

MAX_SPEECH_BYTES = 4 * 1024 * 1024
"""What one turn said is kept up to here: far more than a person reads, far less than what a host would miss."""

MAX_SESSIONS = 64
"""Sessions whose config options are remembered; an editor has a few open."""

MAX_OPTIONS_BYTES = 256 * 1024
"""Config options of one session that are remembered: a hundred models with a long description each."""

MAX_TOOL_CALLS = 256
"""Tool calls that are remembered; those that run at once are a few."""

MAX_INPUT_BYTES = 16 * 1024
"""The input of one tool call that is remembered."""

REPEATED = ("title", "kind", "status", "rawInput")
"""What is remembered of a tool call."""

K = TypeVar("K")
V = TypeVar("V")


class LRU(Generic[K, V]):
    """A mapping that forgets its oldest entry when it is full."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[K, V] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[V]:
        return iter(self._entries.values())

    def put(self, key: K, value: V) -> None:
        """Remember it as the newest."""
        self._entries.pop(key, None)
        if len(self._entries) >= self._limit:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = value

    def get(self, key: K, default: V) -> V:
        """What is remembered under this key."""
        return self._entries.get(key, default)

    def take(self, key: K) -> V | None:
        """What is remembered under this key, and forget it."""
        return self._entries.pop(key, None)


class TurnText:
    """What the agent said to the user in one turn, as long as that is not too much to keep."""

    def __init__(self) -> None:
        self._blocks: list[JsonObject] = []
        self._room = MAX_SPEECH_BYTES

    def add(self, block: JsonObject) -> None:
        """One more block was streamed."""
        self._room -= len(msgspec.json.encode(block))
        if self._room >= 0:
            self._blocks.append(dict(block))  # rules change the block itself
        else:
            self._blocks.clear()

    @property
    def is_whole(self) -> bool:
        """Whether all of it was kept."""
        return self._room >= 0

    def blocks(self) -> list[JsonObject]:
        """All of it, with neighbouring pieces of plain text joined."""
        return _merged(self._blocks)

    def repeats(self, blocks: list[JsonObject]) -> bool:
        """Whether these blocks say again what was streamed, blank edges aside."""
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
    """What the answer's rules need to know of the request, taken from its form of today.

    Attributes:
        options: Ids and kinds of the options that a permission request offered.
        change: The config option and the value that were asked for.
    """

    method: str = ""
    session_id: str = ""
    options: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    change: tuple[str, JsonValue] = ("", None)
    speech: TurnText = field(default_factory=TurnText)

    @classmethod
    def of(cls, letter: OpenMessage) -> Request:
        """What is worth keeping of this one."""
        fields = letter.fields
        offered = [(option.get("optionId"), option.get("kind")) for option in objects(fields.get("options"))]
        return cls(
            letter.method,
            str(fields.get("sessionId", "")),
            [(id, str(kind)) for id, kind in offered if isinstance(id, str)],
            (str(fields.get("configId", "")), fields.get("value")),
        )


NOT_ASKED = Request()
"""What stands where nothing was asked."""


@dataclass(slots=True)
class PeerContext:
    """What the host told us, and what was last seen of sessions and tool calls.

    Attributes:
        dialect: What the peer speaks, if that is known.
        modes: The modes that every session of the agent has, in today's form: those the agent named in its
            capabilities, or the host's own.
        cwds: Directories of sessions that are being loaded without one.
        tool_calls: Title, kind, status and input of tool calls, by session and id.
    """

    dialect: str | None = None
    default_cwd: str | None = None
    credentials: CredentialsFor | None = None
    modes: list[JsonObject] = field(default_factory=list[JsonObject])
    cwds: LRU[str, str] = field(default_factory=lambda: LRU(MAX_SESSIONS))
    config_options: LRU[str, list[JsonObject]] = field(default_factory=lambda: LRU(MAX_SESSIONS))
    tool_calls: LRU[tuple[str, str], JsonObject] = field(default_factory=lambda: LRU(MAX_TOOL_CALLS))

    def remember_tool_call(self, session_id: str, update: JsonObject) -> None:
        """Keep what every later word on this call must repeat for a reader that knows no updates."""
        key = session_id, str(update.get("toolCallId"))
        told = {name: update[name] for name in REPEATED if update.get(name) is not None}
        if len(msgspec.json.encode(told.get("rawInput"))) > MAX_INPUT_BYTES:
            del told["rawInput"]
        self.tool_calls.put(key, {**self.tool_calls.get(key, {}), **told})

    def remember_options(self, session_id: str, options: list[JsonObject]) -> None:
        """Keep the list last seen; one that is too long is forgotten with the one before it."""
        if len(msgspec.json.encode(options)) <= MAX_OPTIONS_BYTES:
            self.config_options.put(session_id, options)
        else:
            self.config_options.take(session_id)


@dataclass(slots=True)
class OpenMessage:
    """One message, opened.

    Attributes:
        method: Of a result: the method it answers. Errors are the same for all and have none.
        body: The params, the result or the error, as plain JSON; rules change it in place or replace it.
        request: Of an answer: what was asked.
        ahead: Updates that have to be delivered before it.
        is_void: Nothing is left to deliver.
    """

    part: Part
    id: Id | None
    method: str
    body: JsonValue
    known: PeerContext
    request: Request = NOT_ASKED
    ahead: list[JsonObject] = field(default_factory=list[JsonObject])
    is_void: bool = False

    @property
    def place(self) -> Place:
        """Where the rules look for it."""
        return self.part, self.method

    @property
    def fields(self) -> JsonObject:
        """The body as an object."""
        return as_object(self.body)
