"""Route messages between one agent process and many clients, without I/O of its own.

Clients choose ids as they like, so each request gets a new id here, and its response the old one again. A session
belongs to the client that created or opened it until that client leaves; for all others it does not exist.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct
from msgspec import field as named

from duologue.errors import ConnectionLost, InternalError, RequestError, ResourceNotFound
from duologue.jsonrpc.codec import Malformed, parse, serialize_error, serialize_notification
from duologue.jsonrpc.envelope import Envelope, PendingRequests, read_envelope, with_id
from duologue.jsonrpc.messages import Id
from duologue.jsonrpc.peer import CANCEL_METHOD
from duologue.relay.pump import strip_newlines
from duologue.transports.base import Transport
from duologue.transports.methods import CREATE_SESSION, END_SESSION, INITIALIZE, NEED_NO_OPEN_SESSION, OPEN_SESSION

_log = logging.getLogger("duologue.relay")

NEED_NO_OWNER = NEED_NO_OPEN_SESSION | END_SESSION

MAX_PENDING_BYTES = 1024 * 1024
"""Updates of sessions whose creation is not answered yet: a list of commands and a greeting."""


class _Cancelled(Struct):
    class Params(Struct):
        request_id: Id = named(name="requestId")

    params: Params


_decode_cancel = msgspec.json.Decoder(_Cancelled).decode


@dataclass(eq=False)
class AttachedClient:
    """One client of the shared agent.

    Attributes:
        transport: The client's connection.
        calls: From the client's ids of its open requests to the ids at the agent.
    """

    transport: Transport
    calls: dict[Id, int] = field(default_factory=dict[Id, int])

    def send(self, frame: bytes) -> None:
        """Send a frame, unless the client is gone."""
        try:
            self.transport.send(frame)
        except ConnectionLost:
            pass  # the task that reads from it notices, too


@dataclass(frozen=True)
class ForwardedRequest:
    """A request that the agent has not answered."""

    client: AttachedClient
    id: Id
    method: str
    session: str | None


class Multiplexer:
    """Route messages between one agent and its clients.

    Args:
        agent: The transport to the agent.

    Attributes:
        clients: The attached clients.
        faults: How often the agent mixed up its clients.
    """

    def __init__(self, agent: Transport) -> None:
        self.clients: set[AttachedClient] = set()
        self.faults = 0
        self._agent = agent
        self._calls: PendingRequests[ForwardedRequest] = PendingRequests()
        self._asked: PendingRequests[AttachedClient] = PendingRequests()
        self._owners: dict[str, AttachedClient] = {}
        self._last_id = 0
        self._initialize_response: bytes | None = None
        self._waiting: list[tuple[AttachedClient, Id]] = []
        self._is_initializing = False
        self._pending_updates: list[tuple[str, bytes]] = []
        self._pending_bytes = 0

    # --- from a client

    def from_client(self, client: AttachedClient, frame: bytes) -> None:
        """Pass on a frame of a client, or answer it here."""
        envelope = read_envelope(frame)
        if envelope is not None and (id := envelope.response_id) is not None:
            self._respond_to_agent(client, id, frame)
        elif envelope is None or not isinstance(envelope.method, str):
            self._reject_malformed(client, frame)
        elif (id := envelope.request_id) is not None:
            self._request(client, id, envelope.method, envelope.session, frame)
        elif envelope.method == CANCEL_METHOD:
            self._cancel(client, frame)
        elif envelope.session is None or self._owners.get(envelope.session) is client:
            self._agent.send(strip_newlines(frame))

    def _reject_malformed(self, client: AttachedClient, frame: bytes) -> None:
        """Answer a malformed frame here: the agent's answer would have no id to route it by."""
        try:
            parse(frame)
        except Malformed as malformed:
            client.send(serialize_error(malformed.id, malformed.error))

    def _respond_to_agent(self, client: AttachedClient, id: Id, frame: bytes) -> None:
        if self._asked.get(id) is client:
            self._asked.answered(id)
            self._agent.send(strip_newlines(frame))

    def _request(self, client: AttachedClient, id: Id, method: str, session: str | None, frame: bytes) -> None:
        if method == INITIALIZE:
            self._initialize(client, id, frame)
            return
        owner = None if session is None else self._owners.get(session)
        if session is not None and owner is not client and (owner is not None or method not in NEED_NO_OWNER):
            client.send(serialize_error(id, ResourceNotFound("no such session here", data={"sessionId": session})))
            return
        if session is not None and method in OPEN_SESSION:
            self._owners[session] = client  # updates before the response belong to this client
        self._forward(ForwardedRequest(client, id, method, session), frame)

    def _forward(self, call: ForwardedRequest, frame: bytes) -> None:
        self._last_id += 1
        self._calls.add(self._last_id, call)
        call.client.calls[call.id] = self._last_id
        self._agent.send(strip_newlines(with_id(frame, self._last_id)))

    def _initialize(self, client: AttachedClient, id: Id, frame: bytes) -> None:
        """Initialize the agent once, for the first client; the others get the same response."""
        if self._initialize_response is not None:
            client.send(with_id(self._initialize_response, id))
        elif self._is_initializing:
            self._waiting.append((client, id))
        else:
            self._is_initializing = True
            self._forward(ForwardedRequest(client, id, INITIALIZE, None), frame)

    def _cancel(self, client: AttachedClient, frame: bytes) -> None:
        try:
            id = _decode_cancel(frame).params.request_id
        except msgspec.MsgspecError:
            return
        if id in client.calls:
            self._agent.send(serialize_notification(CANCEL_METHOD, {"requestId": client.calls[id]}))

    # --- from the agent

    def from_agent(self, frame: bytes) -> None:
        """Pass a frame of the agent to the clients that it is for."""
        envelope = read_envelope(frame)
        if envelope is None:
            _log.warning("a shared agent sent a line that is no message")
        elif not isinstance(envelope.method, str):
            self._on_response(envelope, frame)
        elif envelope.session is not None:
            self._about_session(envelope, envelope.session, frame)
        elif (id := envelope.request_id) is not None:
            self._ask(id, next(iter(self.clients)) if len(self.clients) == 1 else None, frame)
        elif envelope.method == CANCEL_METHOD:
            self._cancelled_by_agent(frame)
        else:
            for client in self.clients:
                client.send(frame)

    def _about_session(self, envelope: Envelope, session: str, frame: bytes) -> None:
        owner = self._owners.get(session)
        if (id := envelope.request_id) is not None:
            self._ask(id, owner, frame)
        elif owner is not None:
            owner.send(frame)
        elif self._is_creating_session() and self._pending_bytes + len(frame) <= MAX_PENDING_BYTES:
            self._pending_updates.append((session, frame))
            self._pending_bytes += len(frame)
        else:
            self._log_violation("sent an update of a session that no client has")

    def _ask(self, id: Id, client: AttachedClient | None, frame: bytes) -> None:
        if client is None:
            self._log_violation("sent a request that belongs to no client")
            self._agent.send(serialize_error(id, ResourceNotFound("no client can answer this request")))
            return
        self._asked.add(id, client)
        client.send(frame)

    def _cancelled_by_agent(self, frame: bytes) -> None:
        try:
            client = self._asked.get(_decode_cancel(frame).params.request_id)
        except msgspec.MsgspecError:
            return
        if client is not None:
            client.send(frame)

    def _on_response(self, envelope: Envelope, frame: bytes) -> None:
        id = envelope.response_id
        call = None if id is None else self._calls.answered(id)
        if call is None:
            return
        call.client.calls.pop(call.id, None)
        if call.method == INITIALIZE:
            self._on_initialized(envelope, frame)
        elif not self._may_receive(call, envelope):
            self._log_violation("answered one client with the session of another")
            error = InternalError("the agent answered with a session of another client")
            call.client.send(serialize_error(call.id, error))
            return
        self._update_owners(call, envelope)
        call.client.send(with_id(frame, call.id))
        if not self._is_creating_session():
            self._drop_pending_updates()

    def _on_initialized(self, envelope: Envelope, frame: bytes) -> None:
        self._is_initializing = False
        if not envelope.is_error:
            self._initialize_response = frame
        waiting, self._waiting = self._waiting, []
        for client, id in waiting:
            client.send(with_id(frame, id))

    def _may_receive(self, call: ForwardedRequest, envelope: Envelope) -> bool:
        session = envelope.made_session
        if session is None:
            return True
        is_own = self._owners.get(session) in (None, call.client)
        return is_own and (call.session in (None, session) or call.method in CREATE_SESSION)

    def _update_owners(self, call: ForwardedRequest, envelope: Envelope) -> None:
        """Record the owner of a session after this response, and send the updates that came before it."""
        session = envelope.made_session
        if session is not None and not envelope.is_error and call.client in self.clients:
            self._owners[session] = call.client
            pending, self._pending_updates = self._pending_updates, []
            for updated, frame in pending:
                if updated == session:
                    call.client.send(frame)
                else:
                    self._pending_updates.append((updated, frame))
        elif call.session is not None and (
            envelope.is_error if call.method in OPEN_SESSION else call.method in END_SESSION
        ):
            self._owners.pop(call.session, None)

    def _is_creating_session(self) -> bool:
        return any(call.method in CREATE_SESSION for call in self._calls.values())

    def _drop_pending_updates(self) -> None:
        for _ in self._pending_updates:
            self._log_violation("sent an update of a session that no client has")
        self._pending_updates.clear()
        self._pending_bytes = 0

    def _log_violation(self, what: str) -> None:
        self.faults += 1
        _log.error("a shared agent %s; the message was dropped", what)

    # --- the end of a client, or of the agent

    def detach(self, client: AttachedClient) -> None:
        """Remove a client: cancel its prompts, answer the agent's requests to it, and let others open its sessions."""
        self.clients.discard(client)
        try:
            for session in [session for session, owner in self._owners.items() if owner is client]:
                self._agent.send(serialize_notification("session/cancel", {"sessionId": session}))
                del self._owners[session]
            for id, asked in self._asked.items():
                if asked is client:
                    self._asked.answered(id)
                    self._agent.send(serialize_error(id, InternalError("the client is gone")))
        except ConnectionLost:
            pass

    def fail(self, error: RequestError) -> None:
        """Answer all open requests with `error`, because the agent is gone."""
        for call in self._calls.values():
            call.client.send(serialize_error(call.id, error))
        for client, id in self._waiting:
            client.send(serialize_error(id, error))
        self._calls.clear()
        self._waiting.clear()
