"""A connection over streamable HTTP that also carries what is not a message, and shows how the server refuses it."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from duologue.jsonrpc.envelope import Envelope, read_envelope
from duologue.transports.methods import INITIALIZE
from duologue.transports.remote.http import HttpTransport
from duologue.transports.remote.http_client import HttpResponse


class RawHttpTransport(HttpTransport):
    """Frames over streamable HTTP; the body of a refusal is received like a message.

    The server refuses in the response to the POST what an agent on stdio would refuse with a message of its own.
    """

    async def _initialize(self, frame: bytes, envelope: Envelope) -> None:
        if envelope.method == INITIALIZE:
            await super()._initialize(frame, envelope)
            return
        response = await self._client.request("POST", {"Content-Type": "application/json"}, frame)
        self._on_rejected(envelope, None, response)

    def _on_rejected(self, envelope: Envelope, session: str | None, response: HttpResponse) -> None:
        if envelope.is_response or (envelope.id is UNSET and envelope.method is not UNSET):
            return  # a notification or a response: the status of HTTP answers the POST, not the message
        if (id_ := envelope.request_id) is not None:
            self._sent.pop(id_, None)
        answer = read_envelope(response.body)
        if answer is not None and answer.is_error and answer.id == id_:
            self._deliver([response.body])
            return
        text = response.body.decode("utf-8", "replace")
        error = {"code": refusal_code(response.status), "message": f"HTTP {response.status}: {text[:200]}"}
        self._deliver([msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "error": error})])


def refusal_code(status: int) -> int:
    """Return the code of JSON-RPC that comes nearest to a status of HTTP without a message."""
    return {400: -32600, 404: -32002, 501: -32600}.get(status, -32603)
