"""Who among many clients of one agent process a message is for: ids are exchanged, sessions have owners. No I/O.

Clients number their requests as they like, so each request gets a number of ours, and its answer the old one back. A
session belongs to the client that made or opened it, until it leaves; for all others it does not exist.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec import field as named

from duologue.errors import ConnectionLost, InternalError, RequestError, ResourceNotFound
from duologue.jsonrpc.codec import Malformed, parse, serialize_error, serialize_notification
from duologue.jsonrpc.envelope import Envelope, PendingRequests, read_envelope
from duologue.jsonrpc.messages import Id
from duologue.relay.process_relay import strip_newlines
from duologue.transports.base import Transport

__all__ = ["AttachedClient", "Multiplexer"]

_log = logging.getLogger("duologue.relay")

CANCEL = "$/cancel_request"
MAKING = ("session/new", "session/fork")
OPENING = ("session/load", "session/resume")
ENDING = ("session/close", "session/delete")
NEED_NO_OWNER = {
    *OPENING,
    *ENDING,
    "session/fork",
    "session/status",
    "session/archive",
    "session/unarchive",
    "session/set_title",
}

MAX_EARLY_BYTES = 1024 * 1024
"""Updates of sessions that are not introduced yet: a list of commands and a greeting."""

_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.encode


class _Cancelled(Struct):
    class Params(Struct):
        request_id: Id = named(name="requestId")

    params: Params


_decode_cancel = msgspec.json.Decoder(_Cancelled).decode


@dataclass(eq=False)
class AttachedClient:
    """One client of the shared agent."""

    transport: Transport
    calls: dict[Id, int] = field(default_factory=dict[Id, int])
    """Its own ids of what it waits for, and ours."""

    def tell(self, frame: bytes) -> None:
        """Send it something, if it is still there."""
        try:
            self.transport.send(frame)
        except ConnectionLost:
            pass  # its own reader hears of it


@dataclass(frozen=True)
class ForwardedRequest:
    """A request on its way through the agent."""

    member: AttachedClient
    id: Id
    method: str
    session: str | None


class Multiplexer:
    """The routes between one agent and its clients.

    Args:
        agent: The way to the agent.
    """

    def __init__(self, agent: Transport) -> None:
        self.members: set[AttachedClient] = set()
        self.faults = 0
        """How often the agent broke the rules between its clients."""
        self._agent = agent
        self._calls: PendingRequests[ForwardedRequest] = PendingRequests()
        self._asked: PendingRequests[AttachedClient] = PendingRequests()
        self._owners: dict[str, AttachedClient] = {}
        self._last_id = 0
        self._welcome: bytes | None = None
        self._waiting: list[tuple[AttachedClient, Id]] = []
        self._is_initializing = False
        self._pending_updates: list[tuple[str, bytes]] = []
        self._early_bytes = 0

    # --- from a client

    def from_member(self, member: AttachedClient, frame: bytes) -> None:
        """Pass on what a client says, or answer it here."""
        shape = read_envelope(frame)
        if shape is None or not (shape.is_request or shape.is_response or shape.is_notification):
            self._refuse_malformed(member, frame)
        elif (id := shape.response_id) is not None:
            self._answer_agent(member, id, frame)
        elif (id := shape.request_id) is not None:
            self._request(member, id, str(shape.method), shape.session, frame)
        elif shape.method == CANCEL:
            self._cancel(member, frame)
        elif shape.session is None or self._owners.get(shape.session) is member:
            self._agent.send(strip_newlines(frame))

    def _refuse_malformed(self, member: AttachedClient, frame: bytes) -> None:
        """The agent's answer would name nobody: it is given here."""
        try:
            parse(frame)
        except Malformed as malformed:
            member.tell(serialize_error(malformed.id, malformed.error))

    def _answer_agent(self, member: AttachedClient, id: Id, frame: bytes) -> None:
        if self._asked.get(id) is member:
            self._asked.answered(id)
            self._agent.send(strip_newlines(frame))

    def _request(self, member: AttachedClient, id: Id, method: str, session: str | None, frame: bytes) -> None:
        if method == "initialize":
            self._initialize(member, id, frame)
            return
        owner = None if session is None else self._owners.get(session)
        if session is not None and owner is not member and (owner is not None or method not in NEED_NO_OWNER):
            member.tell(serialize_error(id, _unknown(session)))
            return
        if session is not None and method in OPENING:
            self._owners[session] = member  # what is told before the answer is for this one
        self._forward(ForwardedRequest(member, id, method, session), frame)

    def _forward(self, call: ForwardedRequest, frame: bytes) -> None:
        self._last_id += 1
        self._calls.add(self._last_id, call)
        call.member.calls[call.id] = self._last_id
        self._agent.send(strip_newlines(_with_id(frame, self._last_id)))

    def _initialize(self, member: AttachedClient, id: Id, frame: bytes) -> None:
        """The agent is greeted once, by whoever is first; the others get the same answer."""
        if self._welcome is not None:
            member.tell(_with_id(self._welcome, id))
        elif self._is_initializing:
            self._waiting.append((member, id))
        else:
            self._is_initializing = True
            self._forward(ForwardedRequest(member, id, "initialize", None), frame)

    def _cancel(self, member: AttachedClient, frame: bytes) -> None:
        try:
            id = _decode_cancel(frame).params.request_id
        except msgspec.MsgspecError:
            return
        if id in member.calls:
            self._agent.send(serialize_notification(CANCEL, {"requestId": member.calls[id]}))

    # --- from the agent

    def from_agent(self, frame: bytes) -> None:
        """Pass on what the agent says to whom it concerns."""
        shape = read_envelope(frame)
        if shape is None:
            _log.warning("a shared agent said something that is no message")
        elif shape.method is UNSET:
            self._answer(shape, frame)
        elif shape.session is not None:
            self._about_session(shape, shape.session, frame)
        elif (id := shape.request_id) is not None:
            self._ask(id, next(iter(self.members)) if len(self.members) == 1 else None, frame)
        elif shape.method == CANCEL:
            self._cancelled_by_agent(frame)
        else:
            for member in self.members:
                member.tell(frame)

    def _about_session(self, shape: Envelope, session: str, frame: bytes) -> None:
        owner = self._owners.get(session)
        if (id := shape.request_id) is not None:
            self._ask(id, owner, frame)
        elif owner is not None:
            owner.tell(frame)
        elif self._makes_sessions() and self._early_bytes + len(frame) <= MAX_EARLY_BYTES:
            self._pending_updates.append((session, frame))
            self._early_bytes += len(frame)
        else:
            self._log_violation("told something in a session that nobody has")

    def _ask(self, id: Id, member: AttachedClient | None, frame: bytes) -> None:
        if member is None:
            self._log_violation("asked a question that is for nobody")
            self._agent.send(serialize_error(id, ResourceNotFound("there is nobody to ask")))
            return
        self._asked.add(id, member)
        member.tell(frame)

    def _cancelled_by_agent(self, frame: bytes) -> None:
        try:
            member = self._asked.get(_decode_cancel(frame).params.request_id)
        except msgspec.MsgspecError:
            return
        if member is not None:
            member.tell(frame)

    def _answer(self, shape: Envelope, frame: bytes) -> None:
        id = shape.response_id
        call = None if id is None else self._calls.answered(id)
        if call is None:
            return
        call.member.calls.pop(call.id, None)
        if call.method == "initialize":
            self._initialized(shape, frame)
        elif not self._may_hear(call, shape):
            self._log_violation("answered one client with the session of another")
            call.member.tell(
                serialize_error(call.id, InternalError("the agent answered with a session that is not yours"))
            )
            return
        self._learn(call, shape)
        call.member.tell(_with_id(frame, call.id))
        if not self._makes_sessions():
            self._drop_early()

    def _initialized(self, shape: Envelope, frame: bytes) -> None:
        self._is_initializing = False
        if not shape.is_error:
            self._welcome = frame
        waiting, self._waiting = self._waiting, []
        for member, id in waiting:
            member.tell(_with_id(frame, id))

    def _may_hear(self, call: ForwardedRequest, shape: Envelope) -> bool:
        session = shape.made_session
        if session is None:
            return True
        owner = self._owners.get(session)
        is_its_own = owner is None or owner is call.member
        return is_its_own and (call.session in (None, session) or call.method in MAKING)

    def _learn(self, call: ForwardedRequest, shape: Envelope) -> None:
        """Who owns what after this answer; what was said too early follows."""
        if shape.made_session is not None and not shape.is_error and call.member in self.members:
            self._owners[shape.made_session] = call.member
            early = [frame for session, frame in self._pending_updates if session == shape.made_session]
            self._pending_updates = [
                (session, frame) for session, frame in self._pending_updates if session != shape.made_session
            ]
            for frame in early:
                call.member.tell(frame)
        elif call.session is not None and (shape.is_error if call.method in OPENING else call.method in ENDING):
            self._owners.pop(call.session, None)

    def _makes_sessions(self) -> bool:
        return any(call.method in MAKING for call in self._calls.values())

    def _drop_early(self) -> None:
        for _ in self._pending_updates:
            self._log_violation("told something in a session that nobody has")
        self._pending_updates.clear()
        self._early_bytes = 0

    def _log_violation(self, what: str) -> None:
        self.faults += 1
        _log.error("a shared agent %s; it was dropped", what)

    # --- coming and going

    def leave(self, member: AttachedClient) -> None:
        """A client is gone: end what it waits for, and let others open its sessions."""
        self.members.discard(member)
        try:
            for session in [session for session, owner in self._owners.items() if owner is member]:
                self._agent.send(serialize_notification("session/cancel", {"sessionId": session}))
                del self._owners[session]
            for id, asked in self._asked.items():
                if asked is member:
                    self._asked.answered(id)
                    self._agent.send(serialize_error(id, InternalError("the client is gone")))
        except ConnectionLost:
            pass

    def fail(self, error: RequestError) -> None:
        """The agent is gone: nobody waits any longer."""
        for call in self._calls.values():
            call.member.tell(serialize_error(call.id, error))
        for member, id in self._waiting:
            member.tell(serialize_error(id, error))
        self._calls.clear()
        self._waiting.clear()


def _with_id(frame: bytes, id: Id) -> bytes:
    members = _decode_members(frame)
    members["id"] = Raw(_encode(id))
    return _encode(members)


def _unknown(session: str) -> ResourceNotFound:
    return ResourceNotFound("no such session here", data={"sessionId": session})
