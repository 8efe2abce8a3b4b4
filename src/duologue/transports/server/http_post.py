"""Streamable HTTP, from the client to the agent: one message in each POST, checked before the agent gets it."""

from __future__ import annotations

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from duologue.errors import InternalError, InvalidRequest, RequestError
from duologue.jsonrpc.codec import Malformed, parse, serialize_error
from duologue.jsonrpc.envelope import Ambiguous, Envelope, check_names, read_envelope
from duologue.transports.methods import INITIALIZE, NEED_NO_OPEN_SESSION, OPEN_SESSION
from duologue.transports.offload import run_offloaded
from duologue.transports.resume.protocol import extract_resume_request
from duologue.transports.server.asgi_extensions import abort_of
from duologue.transports.server.auth import Headers, RequestRejected
from duologue.transports.server.http_streams import HttpServerConnection
from duologue.transports.server.registry import ConnectionRegistry, new_id
from duologue.transports.server.request_body import read_body
from duologue.transports.server.stream_reader import StreamReader

CONNECTION = b"acp-connection-id"
SESSION = b"acp-session-id"
NUMBER = b"duologue-message"
"""Our own clients number what they post, so that they can post it again when the response is lost."""


class HttpRequestHandler:
    """Answer one HTTP request at the endpoint.

    Args:
        connections: Where connections are opened and found again.
        caller: The authenticated caller.
        scope: The ASGI scope of the request.
    """

    def __init__(self, connections: ConnectionRegistry, caller: str, scope: Scope) -> None:
        self._connections = connections
        self._limits = connections.limits
        self._caller = caller
        self._scope = scope
        self._headers = Headers(scope)

    async def answer(self, receive: Receive, send: Send) -> None:
        """Handle the request and send the response.

        Raises:
            RequestRejected: The request is invalid or exceeds a limit.
        """
        match self._scope["method"]:
            case "POST":
                response = await self._post(receive)
            case "DELETE":
                response = self._delete()
            case "GET":
                await self._listen(receive, send)
                return
            case _:
                raise RequestRejected(405, "use GET, POST or DELETE", {"Allow": "GET, POST, DELETE"})
        await response(self._scope, receive, send)

    # --- POST

    async def _post(self, receive: Receive) -> Response:
        kind = self._one(b"content-type") or ""
        if kind.partition(";")[0].strip().lower() != "application/json":
            raise RequestRejected(415, "send the message as application/json")
        if (self._one(b"content-encoding") or "identity").lower() != "identity":
            raise RequestRejected(415, "send the message without compression")
        self._one(b"content-length")
        frame = await read_body(self._scope, receive, self._limits)
        envelope = await run_offloaded(_read, frame)
        connection_id = self._one(CONNECTION)
        if envelope.method == INITIALIZE:
            if connection_id is not None:
                raise _invalid(400, "this connection is initialized already")
            return await self._initialize(frame, envelope)
        connection = self._find(connection_id)
        self._check_session(connection, envelope)
        self._deliver(connection, frame, envelope)
        await connection.wait_for_capacity()
        return Response(status_code=202)

    async def _initialize(self, frame: bytes, envelope: Envelope) -> Response:
        if (id := envelope.request_id) is None:
            raise _invalid(400, "initialize is a request and needs an id")
        if not self._connections.can_open:
            raise RequestRejected(
                503, "the server has as many connections as it may; try again later", {"Retry-After": "5"}
            )
        connection = HttpServerConnection(new_id(), self._caller, self._limits, self._connections.metrics)
        frame, connection.is_resumable = extract_resume_request(frame)
        self._connections.open(connection)
        connection.deliver(frame, envelope)
        try:
            async with asyncio.timeout(self._limits.init_seconds):
                answer = await connection.initialize_response()
        except TimeoutError:
            connection.end()
            error = serialize_error(id, InternalError("the agent did not answer in time"))
            raise RequestRejected(504, "the agent did not answer in time", body=error) from None
        if answer is None:
            error = serialize_error(id, InternalError("the agent ended before it answered"))
            raise RequestRejected(500, "the agent ended before it answered", body=error)
        reply = read_envelope(answer)
        if reply is None or reply.is_error:
            connection.end()
            return Response(answer, media_type="application/json")
        return Response(answer, media_type="application/json", headers={"Acp-Connection-Id": connection.id})

    def _check_session(self, connection: HttpServerConnection, envelope: Envelope) -> None:
        """Check that the session header, which routers read, agrees with the message.

        Raises:
            RequestRejected: It does not.
        """
        named = self._one(SESSION)
        if isinstance(envelope.method, str):
            meant = envelope.session
            is_free = envelope.method in NEED_NO_OPEN_SESSION
        else:
            meant = connection.session_of_request(envelope.id) if isinstance(envelope.id, (int, str)) else None
            is_free = True
        if meant is None:
            return
        if named is None and is_free:
            # The official Python SDK sends no session header with its responses, nor before it has a session. It reads
            # no stream of that session yet, either: the response goes to the stream of the connection.
            if envelope.method in OPEN_SESSION:
                self._add_session(connection, meant)
            envelope.params = None
            return
        if named is None:
            raise _invalid(400, "Acp-Session-Id is missing")
        if named != meant:
            raise _invalid(400, "Acp-Session-Id and the message name different sessions")
        if not is_free and named not in connection.sessions:
            raise _invalid(404, "no such session")

    def _add_session(self, connection: HttpServerConnection, session: str) -> None:
        if len(connection.sessions) >= self._limits.sessions and session not in connection.sessions:
            raise RequestRejected(429, f"one connection has at most {self._limits.sessions} sessions")
        connection.sessions.add(session)

    def _deliver(self, connection: HttpServerConnection, frame: bytes, envelope: Envelope) -> None:
        number = self._one(NUMBER)
        if number is not None:
            if not number.isascii() or not number.isdigit() or len(number) > 15 or int(number) < 1:
                raise _invalid(400, "Duologue-Message must be a number from 1 on")
            if not connection.is_new(int(number)):
                return
        if (id := envelope.response_id) is not None:
            connection.asked.answered(id)
        connection.deliver(frame, envelope)

    # --- GET and DELETE

    async def _listen(self, receive: Receive, send: Send) -> None:
        accepted = ",".join(self._headers.all(b"accept")).lower()
        if "text/event-stream" not in [kind.partition(";")[0].strip() for kind in accepted.split(",")]:
            raise RequestRejected(406, "accept text/event-stream to read events")
        connection = self._find(self._one(CONNECTION))
        session, last_seen = self._one(SESSION), self._one(b"last-event-id")
        if last_seen is None:
            connection.restart_stream(session)
        stream = connection.stream(session)
        if stream is None:
            raise RequestRejected(429, f"one connection has at most {self._limits.streams} streams")
        reader = StreamReader(connection, stream, abort_of(self._scope))
        reader.begin(last_seen)
        await reader.run(receive, send)

    def _delete(self) -> Response:
        self._find(self._one(CONNECTION)).end()
        return Response(status_code=202)

    # --- headers

    def _find(self, connection_id: str | None) -> HttpServerConnection:
        if connection_id is None:
            raise _invalid(400, "Acp-Connection-Id is missing")
        connection = self._connections.find(connection_id, self._caller)
        if not isinstance(connection, HttpServerConnection):
            raise _invalid(404, "no such connection")
        return connection

    def _one(self, name: bytes) -> str | None:
        """Return the value of a header that may occur once."""
        values = self._headers.all(name)
        if len(values) > 1 or (values and len(values[0]) > self._limits.name_chars):
            raise _invalid(400, f"{name.decode()} occurs twice, or is too long")
        return values[0] if values else None


def _read(frame: bytes) -> Envelope:
    try:
        parse(frame)
        check_names(frame)
    except Malformed as malformed:
        if malformed.is_response and _is_error_without_id(frame):
            return Envelope()
        raise _rejected(400, malformed.error) from None
    except Ambiguous as ambiguous:
        raise _invalid(400, str(ambiguous)) from None
    envelope = read_envelope(frame)
    assert envelope is not None, "the frame was parsed"
    return envelope


def _is_error_without_id(frame: bytes) -> bool:
    """Return whether a frame answers a message whose id could not be read, which the agent learns this way."""
    envelope = read_envelope(frame)
    return envelope is not None and envelope.id is None and envelope.is_error


def _invalid(status: int, reason: str) -> RequestRejected:
    return _rejected(status, InvalidRequest(reason))


def _rejected(status: int, error: RequestError) -> RequestRejected:
    return RequestRejected(status, error.message, body=serialize_error(None, error))
