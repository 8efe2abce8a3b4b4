"""The normaliser: rewrites frames of a peer that uses an older dialect to today's v1, and ours to its dialect.

Rules of this file:
    unchanged     a frame that no rule changes is returned as the very same object; so is one that cannot be decoded
    reading       every rule applies, whichever dialect is named; rules match only what is not today's form, but for
                  one: the answer to a wait for a command needs more for an agent whose dialect is named
    writing       today's form, unless the peer's dialect is named; what the dialect has no form for is unchanged
    answers       are matched with the requests they answer, which are remembered in a table of bounded size
    versions      the dialects are older than v2: once `initialize` agrees on a later version nothing is rewritten
    secrets       the log gets the names of rules, never a part of a frame
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, UnsetType

from duologue.compat.content import update_of
from duologue.compat.dialects import Dialect, check_dialect
from duologue.compat.json_access import as_object, objects, string
from duologue.compat.message import NO_REQUEST, CredentialsFor, OpenMessage, PeerContext, RecentEntries, Request
from duologue.compat.rule_table import MODEL_RULES, RULES, Rewrites, reading, writing
from duologue.compat.rules import Side
from duologue.errors import RequestError
from duologue.jsonrpc.codec import (
    Malformed,
    parse,
    serialize_error,
    serialize_notification,
    serialize_request,
    serialize_result,
)
from duologue.jsonrpc.messages import Id, JsonRpcMessage
from duologue.jsonrpc.peer import MAX_PENDING
from duologue.schema import v1
from duologue.schema.base import JsonObject, JsonValue

INITIALIZE_RESULT = "result", v1.INITIALIZE.name

logger = logging.getLogger("duologue.compat")


class _Direction:
    """One direction: the rewrites of its frames, and its unanswered requests."""

    def __init__(self, rewrites: Rewrites, answers: Rewrites) -> None:
        self.rewrites = rewrites
        self.requests: RecentEntries[Id, Request] = RecentEntries(MAX_PENDING)
        self._tracked = {method for part, method in answers if part == "result"} | {v1.INITIALIZE.name}

    def tracks(self, message: OpenMessage) -> bool:
        return message.part == "params" and message.id is not None and message.method in self._tracked

    def concerns(self, message: OpenMessage) -> bool:
        return message.target in self.rewrites or message.target == INITIALIZE_RESULT or self.tracks(message)


class Normaliser:
    """Rewrites the frames of one connection, in both directions.

    Args:
        dialect: The peer's dialect, if it is known; frames to the peer are then written in it.
        side: This side; the peer is the other one.
        default_cwd: The directory of sessions that are loaded without one. Without it they are rejected.
        credentials: Called with the id of an authentication method; its result is sent only to an agent of seed 004.
        models: Adapt the model list of the October 2025 schema to a config option of the category `model`.
        modes: The modes of every session, in today's form (`id`, `name`, `description`); a client of seed 004 looks
            for them in the agent's capabilities.

    Attributes:
        hits: How often each rule changed a frame, by its name.

    Raises:
        ValueError: There is no such dialect.
    """

    def __init__(
        self,
        dialect: Dialect | None,
        side: Side,
        *,
        default_cwd: str | None = None,
        credentials: CredentialsFor | None = None,
        models: bool = False,
        modes: Sequence[JsonObject] = (),
    ) -> None:
        self.hits: Counter[str] = Counter()
        self._known = PeerContext(check_dialect(dialect), default_cwd, credentials, list(modes))
        self._is_v1 = True
        peer: Side = "client" if side == "agent" else "agent"
        reads = reading(side, RULES + (MODEL_RULES if models else ()))
        writes = writing(peer, dialect, with_models=models)
        self._in = _Direction(reads, writes)
        self._out = _Direction(writes, reads)

    def incoming(self, frame: bytes) -> list[bytes]:
        """Rewrite a frame of the peer to today's form: usually one frame, or several, or none."""
        message = self._open(frame, self._in, self._out)
        if message is None:
            return [frame]
        is_changed = self._rewrite(message, self._in)
        self._remember(message, self._in, self._out)
        return _frames_of(message) if is_changed else [frame]

    def session_without_cwd(self, frame: bytes) -> str | None:
        """Return the id of the session that this frame of the peer loads without a directory, if it does."""
        if b"load" not in frame:
            return None
        message = self._open(frame, self._in, self._out)
        if message is None or message.target != ("params", v1.SESSION_LOAD.name) or "cwd" in message.fields:
            return None
        return string(message.fields, "sessionId") or None

    def set_cwd(self, session_id: str, cwd: str) -> None:
        """Set the directory of a session that the next frame loads."""
        self._known.cwds[session_id] = cwd

    def outgoing(self, frame: bytes) -> list[bytes]:
        """Rewrite our frame for the peer."""
        message = self._open(frame, self._out, self._in)
        if message is None:
            return [frame]
        self._remember(message, self._out, self._in)
        return _frames_of(message) if self._rewrite(message, self._out) else [frame]

    def _open(self, frame: bytes, direction: _Direction, opposite: _Direction) -> OpenMessage | None:
        """Decode the message in a frame if any rule may apply to it."""
        if not self._is_v1:
            return None
        try:
            parsed = parse(frame)
        except Malformed:
            return None
        message = self._answer(parsed, opposite) if parsed.method is UNSET else self._call(parsed)
        if message is None or not direction.concerns(message) or not _decode_body(message):
            return None
        if message.target == INITIALIZE_RESULT and _is_later_version(message.fields.get("protocolVersion")):
            self._is_v1 = False
            return None
        return message

    def _call(self, parsed: JsonRpcMessage) -> OpenMessage:
        id = None if isinstance(parsed.id, UnsetType) else parsed.id
        return OpenMessage("params", id, str(parsed.method), parsed.params, self._known)

    def _answer(self, parsed: JsonRpcMessage, opposite: _Direction) -> OpenMessage | None:
        """Return an answer with its request. Errors are the same for all requests, also for those not remembered."""
        if isinstance(parsed.id, UnsetType):
            return None
        request = opposite.requests.pop(parsed.id, None)
        if (parsed.result is UNSET) == (parsed.error is UNSET):
            return None  # neither or both: the reader rejects it
        if parsed.error is not UNSET:
            return OpenMessage("error", parsed.id, "", parsed.error, self._known, request or NO_REQUEST)
        if request is None:
            return None
        return OpenMessage("result", parsed.id, request.method, parsed.result, self._known, request)

    def _rewrite(self, message: OpenMessage, direction: _Direction) -> bool:
        hits = [rule for rule, rewrite in direction.rewrites.get(message.target, []) if rewrite(message)]
        for rule in hits:
            self.hits[rule.name] += 1
            if self.hits[rule.name] == 1:
                logger.info("rewriting for an older dialect: %s", rule.name)
        return bool(hits)

    def _remember(self, message: OpenMessage, direction: _Direction, opposite: _Direction) -> None:
        """Remember what later messages need, from today's form."""
        if direction.tracks(message) and message.id is not None and message.id not in direction.requests:
            direction.requests[message.id] = Request.of(message)
        update = update_of(message)
        holder = update if message.part == "params" else message.fields
        if isinstance(holder.get("configOptions"), list):
            session_id = str(message.fields.get("sessionId", message.request.session_id))
            self._known.remember_options(session_id, objects(holder["configOptions"]))
        if update.get("sessionUpdate") in ("tool_call", "tool_call_update"):
            self._known.remember_tool_call(str(message.fields.get("sessionId")), update)
        if update.get("sessionUpdate") == "agent_message_chunk":
            for fields in [*message.before, message.fields]:
                block = as_object(as_object(fields.get("update")).get("content"))
                _record_text(opposite.requests, fields.get("sessionId"), block)


def _record_text(requests: RecentEntries[Id, Request], session_id: JsonValue, block: JsonValue) -> None:
    """Add a block to the text of the oldest turn that runs in this session."""
    for request in requests.values():
        if request.method == v1.SESSION_PROMPT.name and request.session_id == session_id:
            request.text.add(block)
            return


def _is_later_version(version: JsonValue) -> bool:
    return isinstance(version, int) and version > 1


def _decode_body(message: OpenMessage) -> bool:
    raw: Raw | UnsetType = message.body
    try:
        message.body = None if isinstance(raw, UnsetType) else msgspec.json.decode(raw)
    except msgspec.MsgspecError:  # a number out of range
        return False
    return True


def _frames_of(message: OpenMessage) -> list[bytes]:
    frames = [serialize_notification(v1.SESSION_UPDATE.name, params) for params in message.before]
    return frames if message.is_dropped else [*frames, _serialize(message)]


def _serialize(message: OpenMessage) -> bytes:
    if message.id is None:
        return serialize_notification(message.method, message.body)
    if message.part == "params":
        return serialize_request(message.id, message.method, message.body)
    if message.part == "result":
        return serialize_result(message.id, message.body)
    error = message.fields
    return serialize_error(
        message.id, RequestError(error.get("message", ""), code=error["code"], data=error.get("data"))
    )
