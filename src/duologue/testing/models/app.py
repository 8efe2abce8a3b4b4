"""The ASGI application of the model server: check each request, choose its turn, and play it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from duologue.conversation.content import JsonObject
from duologue.testing.models import chat_format, messages_format, responses_format
from duologue.testing.models.control import AnswerControl
from duologue.testing.models.conversation_check import conversation_error
from duologue.testing.models.faults import Provider, error_of_status, provider_error
from duologue.testing.models.player import AnswerPlayer
from duologue.testing.models.request import ModelRequest
from duologue.testing.models.request_log import RequestLog
from duologue.testing.models.script import ModelScript, ModelTurn
from duologue.testing.models.sender import Sender
from duologue.testing.models.turn_queue import NoTurn, TurnQueue
from duologue.transports.server.auth import AccessControl, Headers, RequestRejected
from duologue.transports.server.limits import Limits
from duologue.transports.server.protected_app import AccessLogEntry, ProtectedApp, allow, path_of
from duologue.transports.server.request_body import read_body

MAX_BODY_BYTES = 32 * 1024 * 1024
"""Longest request; real providers read no longer ones, either."""

MAX_ANSWERS = 100
"""Requests at the same time, held ones included; one more is answered with 503."""

DEFAULT_MODEL = "scripted-model"
"""The model in the list of a server that accepts every model."""

Read = Callable[[JsonObject], ModelRequest]

ANSWERED: dict[str, Read] = {
    "/v1/chat/completions": chat_format.read,
    "/v1/responses": responses_format.read,
    "/v1/messages": messages_format.read,
}
COUNT_TOKENS = "/v1/messages/count_tokens"
MODELS = "/v1/models"


class ModelApp(ProtectedApp):
    """Answers requests to a model with the turns of a script.

    Args:
        script: The script; its turns are in `turns`.
        turns: The turns.
        log: The requests and failures.
        control: Pauses and holds.
        access: Authenticates each request.
        limits: The limits of the server.
    """

    def __init__(
        self,
        script: ModelScript,
        turns: TurnQueue,
        log: RequestLog,
        control: AnswerControl,
        access: AccessControl,
        limits: Limits,
    ) -> None:
        super().__init__(access, limits)
        self._script = script
        self._turns = turns
        self._log = log
        self._control = control
        self._running = 0

    async def drain(self, seconds: float) -> None:
        self._control.stop()

    async def aclose(self) -> None:
        self._control.stop()

    async def answer(self, scope: Scope, receive: Receive, send: Send, entry: AccessLogEntry) -> None:
        provider = _provider(scope)
        try:
            self._enter()
            try:
                entry.caller = (await self.access.authenticate(_with_bearer(scope))).name
                await self._route(scope, receive, entry.watch(send), provider)
            finally:
                self._running -= 1
        except RequestRejected as rejection:
            error = error_of_status(rejection.status, rejection.reason, provider)
            body = msgspec.json.encode(error.body(provider, "req_0"))
            raise RequestRejected(rejection.status, rejection.reason, rejection.headers, body=body) from None

    def _enter(self) -> None:
        """Count a request, also one that is rejected."""
        self._running += 1
        if self._running > MAX_ANSWERS:
            self._running -= 1
            raise RequestRejected(503, f"the server answers at most {MAX_ANSWERS} requests at the same time")

    async def _route(self, scope: Scope, receive: Receive, send: Send, provider: Provider) -> None:
        path = path_of(scope)
        sender = Sender(send, provider, "req_0", self.limits.stall_seconds)
        if scope["type"] != "http":
            raise RequestRejected(404, "the server has no WebSocket")
        if path == MODELS or path.startswith(f"{MODELS}/"):
            allow(scope, "GET")
            await self._list_models(path.removeprefix(MODELS).strip("/"), sender, provider)
        elif path == COUNT_TOKENS:
            allow(scope, "POST")
            body, _ = await self._body(scope, receive)
            await sender.send_json({"input_tokens": messages_format.read(body).tokens})
        elif (read := ANSWERED.get(path)) is not None:
            allow(scope, "POST")
            body, size = await self._body(scope, receive)
            request = read(body)
            self._log.add(request, scope, size)
            await self._answer(request, scope, receive, send)
        else:
            raise RequestRejected(
                404, f"the server has no {path}; it has {', '.join([*ANSWERED, COUNT_TOKENS, MODELS])}"
            )

    async def _body(self, scope: Scope, receive: Receive) -> tuple[JsonObject, int]:
        """Return the body without the key, and its size in bytes."""
        encodings = Headers(scope).all(b"content-encoding")
        if any(encoding.lower() != "identity" for encoding in encodings):
            raise RequestRejected(415, "send the request without compression")
        frame = self._log.without_key(await read_body(scope, receive, self.limits))
        try:
            return msgspec.json.decode(frame, type=JsonObject), len(frame)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise RequestRejected(400, f"the body is not a JSON object: {error}") from None

    async def _list_models(self, name: str, sender: Sender, provider: Provider) -> None:
        names = self._script.models or [DEFAULT_MODEL]
        if provider == "openai":
            models = [{"id": id, "object": "model", "created": 0, "owned_by": "script"} for id in names]
            whole: JsonObject = {"object": "list", "data": models}
        else:
            fixed = {"type": "model", "created_at": "2026-01-01T00:00:00Z", "lifecycle": "active"}
            models = [{**fixed, "id": id, "display_name": id} for id in names]
            whole = {"data": models, "has_more": False, "first_id": names[0], "last_id": names[-1]}
        if not name:
            await sender.send_json(whole)
            return
        found = next((model for model in models if model["id"] == name), None)
        error = provider_error("model_not_found", provider)
        assert error is not None
        await (sender.send_error(error) if found is None else sender.send_json(found))

    async def _answer(self, request: ModelRequest, scope: Scope, receive: Receive, send: Send) -> None:
        await self._control.notify()
        provider = _provider(scope)
        turn = self._choose(request, provider)
        if turn is None:
            await self._control.finish(request, "rejected")
            error = provider_error("bad_request", provider, self._log.failures[-1])
            assert error is not None
            await Sender(send, provider, f"req_{request.number}", self.limits.stall_seconds).send_error(error)
            return
        player = AnswerPlayer(turn, request, self._control, scope, send, self.limits.stall_seconds)
        is_abandoned = False
        try:
            is_abandoned = await _play_while_connected(player, receive)
        finally:
            await self._control.finish(request, "abandoned" if is_abandoned else "answered")
            if player.failure is not None:
                self._log.fail(f"request {request.number}: {player.failure}")

    def _choose(self, request: ModelRequest, provider: Provider) -> ModelTurn | None:
        """Return the turn for a request; `None` if the test must fail."""
        if self._script.models and request.model not in self._script.models:
            return ModelTurn(fault="model_not_found")
        limit = self._script.context_limit
        if limit is not None and request.tokens > limit:
            tokens = f"{request.tokens} tokens > {limit} maximum"
            openai = f"This model's maximum context length is {limit} tokens; the request has {request.tokens}."
            message = f"prompt is too long: {tokens}" if provider == "anthropic" else openai
            return ModelTurn(fault="context_length", message=message)
        wrong = None if self._script.is_lenient else conversation_error(request)
        if wrong is not None:
            self._log.fail(f"request {request.number} is one that a real provider rejects: {wrong}")
            return None
        try:
            return self._turns.take(request, is_lenient=self._script.is_lenient)
        except NoTurn as error:
            self._log.fail(str(error))
            return None


async def _play_while_connected(player: AnswerPlayer, receive: Receive) -> bool:
    """Play an answer until it ends or the client leaves; return True if the client left."""
    async with asyncio.TaskGroup() as group:
        answering = group.create_task(player.play())
        leaving = group.create_task(_wait_for_disconnect(receive))
        await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
        is_abandoned = not answering.done()
        answering.cancel()
        leaving.cancel()
    return is_abandoned


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _provider(scope: Scope) -> Provider:
    is_anthropic = path_of(scope).startswith("/v1/messages") or Headers(scope).all(b"anthropic-version")
    return "anthropic" if is_anthropic else "openai"


def _with_bearer(scope: Scope) -> Scope:
    """Return the scope of a request with the key in `x-api-key` as a bearer token, which is what is checked."""
    headers: list[tuple[bytes, Any]] = scope["headers"]
    keys = [value for name, value in headers if name.lower() == b"x-api-key"]
    if len(keys) != 1 or any(name.lower() == b"authorization" for name, _ in headers):
        return scope
    return {**scope, "headers": [*headers, (b"authorization", b"Bearer " + keys[0])]}
