"""The normaliser: frames of a peer that speaks an older dialect, seen as today's v1.

Rules of this file:
    unchanged     a frame that no rule changes leaves as the very same object; so does one that cannot be read
    reading       every rule applies, whatever the peer is called; a rule only ever matches what is not today's form,
                  but for one: a wait for a command of an agent whose dialect is named has to be answered with more
    writing       today's form, unless the peer's dialect is named; what that has no word for is left in place
    answers       are told apart by the requests they answer, which are remembered in a table of bounded size
    versions      the dialects are older than v2: once `initialize` agrees on a later version nothing is touched
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
from duologue.compat.json_access import JsonObject, JsonValue, as_object, objects, word
from duologue.compat.message import LRU, NOT_ASKED, CredentialsFor, OpenMessage, PeerContext, Request
from duologue.compat.methods import INITIALIZE, SESSION_LOAD, SESSION_PROMPT, SESSION_UPDATE, Side
from duologue.compat.rule_table import MODEL_RULES, RULES, Rewrites, reading, writing
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

__all__ = ["Normaliser"]

logger = logging.getLogger("duologue.compat")


class _Way:
    """One direction: how its frames are rewritten, and the requests that went this way."""

    def __init__(self, rewrites: Rewrites, answers: Rewrites) -> None:
        self.rewrites = rewrites
        self.asked: LRU[Id, Request] = LRU(MAX_PENDING)
        self._tracked = {method for part, method in answers if part == "result"} | {INITIALIZE}

    def tracks(self, letter: OpenMessage) -> bool:
        return letter.part == "params" and letter.id is not None and letter.method in self._tracked

    def concerns(self, letter: OpenMessage) -> bool:
        return letter.place in self.rewrites or letter.place == ("result", INITIALIZE) or self.tracks(letter)


class Normaliser:
    """Rewrites the frames of one connection, both ways.

    Args:
        dialect: What the peer speaks, if that is known; then it is also spoken to it.
        side: Which side we are; the peer is the other one.
        default_cwd: The directory of sessions that are loaded without one. Without it they are refused, as v1 demands.
        credentials: Called with the id of an authentication method; what it returns is sent to an agent that speaks
            seed 004, and nowhere else.
        models: Adapt the model list of the October 2025 schema to a config option of the category `model`.
        modes: The modes of every session, in today's form (`id`, `name`, `description`); a client that speaks seed 004
            looks for them in the agent's capabilities.

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
        self._speaks_v1 = True
        peer: Side = "client" if side == "agent" else "agent"
        reads = reading(side, RULES + (MODEL_RULES if models else ()))
        writes = writing(peer, dialect, with_models=models)
        self._in = _Way(reads, writes)
        self._out = _Way(writes, reads)

    def incoming(self, frame: bytes) -> list[bytes]:
        """What the peer's frame is today: usually one frame, several where it said several things at once."""
        letter = self._open(frame, self._in, self._out)
        if letter is None:
            return [frame]
        is_changed = self._rewrite(letter, self._in)
        self._note(letter, self._in, self._out)
        return _seal(letter) if is_changed else [frame]

    def unplaced(self, frame: bytes) -> str | None:
        """The id of the session that this frame of the peer loads without a directory, if it does."""
        if b"load" not in frame:
            return None
        letter = self._open(frame, self._in, self._out)
        if letter is None or letter.place != ("params", SESSION_LOAD) or "cwd" in letter.fields:
            return None
        return word(letter.fields, "sessionId") or None

    def place(self, session_id: str, cwd: str) -> None:
        """Say where a session is that the next frame loads."""
        self._known.cwds.put(session_id, cwd)

    def outgoing(self, frame: bytes) -> list[bytes]:
        """What our frame is to the peer."""
        letter = self._open(frame, self._out, self._in)
        if letter is None:
            return [frame]
        self._note(letter, self._out, self._in)
        return _seal(letter) if self._rewrite(letter, self._out) else [frame]

    def _open(self, frame: bytes, way: _Way, back: _Way) -> OpenMessage | None:
        """The frame's letter, if it concerns us."""
        if not self._speaks_v1:
            return None
        try:
            message = parse(frame)
        except Malformed:
            return None
        letter = self._answer(message, back) if message.method is UNSET else self._call(message)
        if letter is None or not way.concerns(letter) or not _decode_body(letter):
            return None
        if letter.place == ("result", INITIALIZE) and _is_later_version(letter.fields.get("protocolVersion")):
            self._speaks_v1 = False
            return None
        return letter

    def _call(self, message: JsonRpcMessage) -> OpenMessage:
        id = None if isinstance(message.id, UnsetType) else message.id
        return OpenMessage("params", id, str(message.method), message.params, self._known)

    def _answer(self, message: JsonRpcMessage, back: _Way) -> OpenMessage | None:
        """An answer and what it answers. Errors are the same for all requests, also for those we did not remember."""
        if isinstance(message.id, UnsetType):
            return None
        request = back.asked.take(message.id)
        if (message.result is UNSET) == (message.error is UNSET):
            return None  # neither or both: left to whoever complains
        if message.error is not UNSET:
            return OpenMessage("error", message.id, "", message.error, self._known, request or NOT_ASKED)
        if request is None:
            return None
        return OpenMessage("result", message.id, request.method, message.result, self._known, request)

    def _rewrite(self, letter: OpenMessage, way: _Way) -> bool:
        hits = [rule for rule, rewrite in way.rewrites.get(letter.place, []) if rewrite(letter)]
        for rule in hits:
            self.hits[rule.name] += 1
            if self.hits[rule.name] == 1:
                logger.info("rewriting for an older dialect: %s", rule.name)
        return bool(hits)

    def _note(self, letter: OpenMessage, way: _Way, back: _Way) -> None:
        """Remember from today's form what later letters need."""
        if way.tracks(letter) and letter.id is not None and letter.id not in way.asked:
            way.asked.put(letter.id, Request.of(letter))
        update = update_of(letter)
        holder = update if letter.part == "params" else letter.fields
        if isinstance(holder.get("configOptions"), list):
            session_id = str(letter.fields.get("sessionId", letter.request.session_id))
            self._known.remember_options(session_id, objects(holder["configOptions"]))
        if update.get("sessionUpdate") in ("tool_call", "tool_call_update"):
            self._known.remember_tool_call(str(letter.fields.get("sessionId")), update)
        if update.get("sessionUpdate") == "agent_message_chunk":
            for said in [*letter.ahead, letter.fields]:
                _listen(back.asked, said.get("sessionId"), as_object(as_object(said.get("update")).get("content")))


def _listen(asked: LRU[Id, Request], session_id: JsonValue, block: JsonValue) -> None:
    """Add to what was said in the oldest turn that runs in this session."""
    turns = (request for request in asked if request.method == SESSION_PROMPT and request.session_id == session_id)
    for turn in turns:
        turn.speech.add(block)
        return


def _is_later_version(version: JsonValue) -> bool:
    return isinstance(version, int) and version > 1


def _decode_body(letter: OpenMessage) -> bool:
    raw: Raw | UnsetType = letter.body
    try:
        letter.body = None if isinstance(raw, UnsetType) else msgspec.json.decode(raw)
    except msgspec.MsgspecError:  # a number out of range
        return False
    return True


def _seal(letter: OpenMessage) -> list[bytes]:
    frames = [serialize_notification(SESSION_UPDATE, params) for params in letter.ahead]
    return frames if letter.is_void else [*frames, _serialize(letter)]


def _serialize(letter: OpenMessage) -> bytes:
    if letter.id is None:
        return serialize_notification(letter.method, letter.body)
    if letter.part == "params":
        return serialize_request(letter.id, letter.method, letter.body)
    if letter.part == "result":
        return serialize_result(letter.id, letter.body)
    error = letter.fields
    return serialize_error(
        letter.id, RequestError(error.get("message", ""), code=error["code"], data=error.get("data"))
    )
