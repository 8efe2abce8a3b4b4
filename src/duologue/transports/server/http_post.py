"""Streamable HTTP, from the client to the agent: one message in each POST, checked before the agent sees it."""

from __future__ import annotations

import asyncio

from msgspec import UNSET
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from duologue.errors import InternalError, InvalidRequest, RequestError
from duologue.jsonrpc.codec import Malformed, parse, serialize_error
from duologue.jsonrpc.envelope import Ambiguous, Envelope, check_names, read_envelope
from duologue.transports.offload import examine
from duologue.transports.server.asgi_extensions import abort_of
from duologue.transports.server.auth import Headers, RequestRejected
from duologue.transports.server.http_streams import OPENING, HttpServerConnection, StreamReader
from duologue.transports.server.registry import ConnectionRegistry, new_id
from duologue.transports.server.resume_messages import extract_resume_request

__all__ = ["HttpRequestHandler"]

CONNECTION = b"acp-connection-id"
SESSION = b"acp-session-id"
NUMBER = b"duologue-message"
"""Our own clients count what they post, so that they can post it again when the answer is lost."""

NEED_NO_OPEN_SESSION = {
    *("session/load", "session/resume", "session/fork", "session/delete", "session/status"),
    *("session/archive", "session/unarchive", "session/set_title"),
}


class HttpRequestHandler:
    """What one caller asks for at the endpoint.

    Args:
        connections: Where connections are opened and found again.
        caller: Who asks.
        scope: What the web server says of the request.
    """

    def __init__(self, connections: ConnectionRegistry, caller: str, scope: Scope) -> None:
        self._connections = connections
        self._limits = connections.limits
        self._caller = caller
        self._scope = scope
        self._headers = Headers(scope)

    async def answer(self, receive: Receive, send: Send) -> None:
        """Do it.

        Raises:
            Refusal: It cannot be done, and this is why.
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
                raise RequestRejected(405, "only GET, POST and DELETE", {"Allow": "GET, POST, DELETE"})
        await response(self._scope, receive, send)

    # --- POST

    async def _post(self, receive: Receive) -> Response:
        kind = self._one(b"content-type") or ""
        if kind.partition(";")[0].strip().lower() != "application/json":
            raise RequestRejected(415, "a message is application/json")
        if (self._one(b"content-encoding") or "identity").lower() != "identity":
            raise RequestRejected(415, "a message is not compressed")
        frame = await self._body(receive)
        shape = await examine(_read, frame)
        connection_id = self._one(CONNECTION)
        if shape.method == "initialize":
            if connection_id is not None:
                raise _invalid(400, "this connection is initialized already")
            return await self._initialize(frame, shape)
        held = self._held(connection_id)
        self._check_session(held, shape)
        self._deliver(held, frame, shape)
        await held.wait_for_capacity()
        return Response(status_code=202)

    async def _body(self, receive: Receive) -> bytes:
        most = self._limits.message_bytes
        length = self._one(b"content-length")
        if length is not None and length.isdigit() and int(length) > most:
            raise RequestRejected(413, f"a message has at most {most} bytes")
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestRejected(400, "the message ended before its end")
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise RequestRejected(413, f"a message has at most {most} bytes")
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise RequestRejected(408, "the message took too long to arrive") from None

    async def _initialize(self, frame: bytes, shape: Envelope) -> Response:
        if (id := shape.request_id) is None:
            raise _invalid(400, "initialize is a request, and has an id")
        if not self._connections.can_open:
            raise RequestRejected(503, "no more connections at the moment", {"Retry-After": "5"})
        held = HttpServerConnection(new_id(), self._caller, self._limits, self._connections.numbers)
        frame, held.is_resumable = extract_resume_request(frame)
        self._connections.open(held)
        held.deliver(frame, shape)
        try:
            async with asyncio.timeout(self._limits.init_seconds):
                answer = await held.welcome()
        except TimeoutError:
            held.end()
            error = serialize_error(id, InternalError("the agent did not answer in time"))
            raise RequestRejected(504, "the agent did not answer in time", body=error) from None
        if answer is None:
            error = serialize_error(id, InternalError("the agent ended before it answered"))
            raise RequestRejected(500, "the agent ended before it answered", body=error)
        reply = read_envelope(answer)
        if reply is None or reply.is_error:
            held.end()
            return Response(answer, media_type="application/json")
        return Response(answer, media_type="application/json", headers={"Acp-Connection-Id": held.id})

    def _check_session(self, held: HttpServerConnection, shape: Envelope) -> None:
        """The header that routers read must say what the message says.

        Raises:
            Refusal: It does not.
        """
        said = self._one(SESSION)
        if shape.method is not UNSET:
            meant = shape.session
            is_free = shape.method in NEED_NO_OPEN_SESSION
        else:
            meant = None if (id := shape.response_id) is None else held.answers(id)
            is_free = True
        if meant is None:
            return
        if said is None and is_free:
            # The official Python SDK names no session in its answers, nor before it has one. It reads no stream of
            # that session yet, either: what it asked for is answered on that of the connection.
            if shape.method in OPENING:
                self._expect(held, meant)
            shape.params = None
            return
        if said is None:
            raise _invalid(400, "Acp-Session-Id is missing")
        if said != meant:
            raise _invalid(400, "Acp-Session-Id and the message name different sessions")
        if not is_free and said not in held.sessions:
            raise _invalid(404, "no such session here")

    def _expect(self, held: HttpServerConnection, session: str) -> None:
        if len(held.sessions) >= self._limits.sessions and session not in held.sessions:
            raise RequestRejected(429, f"one connection has at most {self._limits.sessions} sessions")
        held.sessions.add(session)

    def _deliver(self, held: HttpServerConnection, frame: bytes, shape: Envelope) -> None:
        number = self._one(NUMBER)
        if number is not None:
            if not number.isascii() or not number.isdigit() or len(number) > 15 or int(number) < 1:
                raise _invalid(400, "Duologue-Message counts from 1")
            if not held.is_new(int(number)):
                return
        if (id := shape.response_id) is not None:
            held.asked.answered(id)
        held.deliver(frame, shape)

    # --- GET and DELETE

    async def _listen(self, receive: Receive, send: Send) -> None:
        accepted = ",".join(self._headers.all(b"accept")).lower()
        if "text/event-stream" not in [kind.partition(";")[0].strip() for kind in accepted.split(",")]:
            raise RequestRejected(406, "this is a text/event-stream")
        held = self._held(self._one(CONNECTION))
        session, last_seen = self._one(SESSION), self._one(b"last-event-id")
        if last_seen is None:
            held.begin_anew(session)
        stream = held.stream(session)
        if stream is None:
            raise RequestRejected(429, f"one connection has at most {self._limits.streams} streams")
        reader = StreamReader(held, stream, abort_of(self._scope))
        reader.begin(last_seen)
        await reader.run(receive, send)

    def _delete(self) -> Response:
        self._held(self._one(CONNECTION)).end()
        return Response(status_code=202)

    # --- headers

    def _held(self, connection_id: str | None) -> HttpServerConnection:
        if connection_id is None:
            raise _invalid(400, "Acp-Connection-Id is missing")
        held = self._connections.find(connection_id, self._caller)
        if not isinstance(held, HttpServerConnection):
            raise _invalid(404, "no such connection")
        return held

    def _one(self, name: bytes) -> str | None:
        """A header that may be there once."""
        values = self._headers.all(name)
        if len(values) > 1 or (values and len(values[0]) > self._limits.name_chars):
            raise _invalid(400, f"{name.decode()} is there twice, or too long")
        return values[0] if values else None


def _read(frame: bytes) -> Envelope:
    try:
        parse(frame)
        check_names(frame)
    except Malformed as malformed:
        raise _refused(400, malformed.error) from None
    except Ambiguous as ambiguous:
        raise _invalid(400, str(ambiguous)) from None
    shape = read_envelope(frame)
    assert shape is not None, "it was parsed"
    return shape


def _invalid(status: int, reason: str) -> RequestRejected:
    return _refused(status, InvalidRequest(reason))


def _refused(status: int, error: RequestError) -> RequestRejected:
    return RequestRejected(status, error.message, body=serialize_error(None, error))
