"""Send one answer: its delays, holds and faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from starlette.types import Scope, Send

from duologue.conversation.content import JsonObject
from duologue.testing.models import chat_format, messages_format, responses_format
from duologue.testing.models.answer import ModelAnswer, answer_of
from duologue.testing.models.control import AnswerControl, AnswerEnded, HoldExpired
from duologue.testing.models.faults import RETRY_LATER, Provider, ProviderError, provider_error
from duologue.testing.models.request import ModelRequest
from duologue.testing.models.script import Api, ModelTurn
from duologue.testing.models.sender import Sender
from duologue.testing.models.wire import WireEvent
from duologue.transports.server.asgi_extensions import abort_of, reset_of

WEB_PAGE = b"<!doctype html><html><head><title>Error</title></head><body><h1>Bad gateway</h1></body></html>"
MALFORMED = '{"this is": not JSON'
DRIP_BYTES = 7
DRIP_SECONDS = 0.001
JSON_TYPE = "application/json"

Write = Callable[[ModelAnswer, ModelRequest], JsonObject]
WriteEvents = Callable[[ModelAnswer, ModelRequest], Iterator[WireEvent]]

FORMATS: dict[Api, tuple[Write, WriteEvents]] = {
    "chat": (chat_format.write, chat_format.write_events),
    "responses": (responses_format.write, responses_format.write_events),
    "messages": (messages_format.write, messages_format.write_events),
}


class AnswerPlayer:
    """Plays a turn as the answer to one request.

    Args:
        turn: The turn.
        request: The request.
        control: Pauses and holds.
        scope: The ASGI scope of the request.
        send: Sends messages of ASGI.
        stall_seconds: Longest time for a client to read what is sent.
    """

    def __init__(
        self,
        turn: ModelTurn,
        request: ModelRequest,
        control: AnswerControl,
        scope: Scope,
        send: Send,
        stall_seconds: float,
    ) -> None:
        self._turn = turn
        self._request = request
        self._control = control
        self._scope = scope
        self._sender = Sender(send, self._provider, f"req_{request.number}", stall_seconds)
        self.failure: str | None = None
        """The reason for which the test must fail."""

    @property
    def _provider(self) -> Provider:
        return "anthropic" if self._request.api == "messages" else "openai"

    async def play(self) -> None:
        """Send the answer, or what the fault of the turn makes of it."""
        turn = self._turn
        try:
            await self._control.pause(turn.delay)
            if turn.hold_after == 0 or (turn.hold_after is not None and not self._request.is_streamed):
                await self._control.hold(self._request)
            await self._answer()
        except AnswerEnded as ended:
            self.failure = str(ended) if isinstance(ended, HoldExpired) else None
            abort_of(self._scope)()

    async def _answer(self) -> None:
        turn, sender = self._turn, self._sender
        fault = turn.fault or ""
        if fault == "error_event" and not self._request.is_streamed:
            fault = "server_error"
        if (error := provider_error(fault, self._provider, turn.message)) is not None:
            await self._fail(error)
            return
        match fault:
            case "timeout":
                await self._control.hang()
            case "reset":
                reset_of(self._scope)()
            case "wrong_content_type":
                await sender.send_whole(200, "text/html", WEB_PAGE)
            case "bad_gateway":
                await sender.send_whole(502, "text/html", WEB_PAGE)
            case "empty_body":
                kind = "text/event-stream" if self._request.is_streamed else JSON_TYPE
                await sender.send_whole(200, kind, b"")
            case _:
                answer = answer_of(turn, self._request)
                await (self._stream(answer) if self._request.is_streamed else self._send_body(answer))

    async def _fail(self, error: ProviderError) -> None:
        seconds = self._turn.retry_after
        if seconds is None and self._turn.fault == "rate_limited":
            seconds = 1.0
        is_later = self._turn.fault in RETRY_LATER and seconds is not None
        await self._sender.send_error(error, {"retry-after": f"{seconds:g}"} if is_later else {})

    # --- not streamed

    async def _send_body(self, answer: ModelAnswer) -> None:
        body = msgspec.json.encode(FORMATS[self._request.api][0](answer, self._request))
        match self._turn.fault:
            case "malformed_json":
                body = MALFORMED.encode()
            case "truncated":
                body = body[: len(body) // 2]
            case "hang" | "reset_midstream":
                await self._sender.start(200, JSON_TYPE)
                await self._sender.write(body[: len(body) // 2])
                await self._interrupt()
            case "slow_drip":
                await self._sender.start(200, JSON_TYPE)
                await self._drip(body)
                await self._sender.end()
                return
            case _:
                pass
        await self._sender.send_whole(200, JSON_TYPE, body)

    async def _interrupt(self) -> None:
        if self._turn.fault == "hang":
            await self._control.hang()
        reset_of(self._scope)()
        raise AnswerEnded("reset")

    async def _drip(self, data: bytes) -> None:
        for begin in range(0, len(data), DRIP_BYTES):
            await self._sender.write(data[begin : begin + DRIP_BYTES])
            await self._control.pause(self._turn.piece_delay or DRIP_SECONDS)

    # --- streamed

    async def _stream(self, answer: ModelAnswer) -> None:
        turn, sent = self._turn, 0
        hold_after = None if not turn.hold_after else min(turn.hold_after, answer.piece_count)
        fault_after = min(turn.fault_after, answer.piece_count)
        is_fault_due = turn.fault is not None
        await self._sender.start(200, "text/event-stream; charset=utf-8")
        for event in FORMATS[self._request.api][1](answer, self._request):
            if hold_after is not None and sent >= hold_after:
                hold_after = None
                await self._control.hold(self._request)
            if is_fault_due and sent >= fault_after and (event.is_piece or sent == answer.piece_count):
                is_fault_due = False
                if await self._fault_in_stream(event):
                    return
            await self._send_event(event)
            if event.is_piece:
                sent += 1
                await self._control.pause(turn.piece_delay)
        await self._sender.end()

    async def _send_event(self, event: WireEvent) -> None:
        if self._turn.fault == "slow_drip":
            await self._drip(event.encode())
        else:
            await self._sender.write(event.encode())

    async def _fault_in_stream(self, event: WireEvent) -> bool:
        """Perform the fault before an event; return True if it ended the answer."""
        write = self._sender.write
        match self._turn.fault:
            case "hang" | "reset_midstream":
                await self._interrupt()
            case "truncated":
                await self._sender.end()
                return True
            case "error_event":
                await write(self._error_event().encode())
                await self._sender.end()
                return True
            case "malformed_json":
                await write(WireEvent({}, event.name, raw=MALFORMED).encode())
            case "unknown_event":
                name = None if self._request.api == "chat" else "scripted_unknown"
                await write(WireEvent({"type": "scripted_unknown", "choices": []}, name).encode())
            case "duplicate_event":
                await write(event.encode())
            case _:
                pass
        return False

    def _error_event(self) -> WireEvent:
        fault = "overloaded" if self._provider == "anthropic" else "server_error"
        error = provider_error(fault, self._provider, self._turn.message)
        assert error is not None
        match self._request.api:
            case "chat":
                return WireEvent(error.body("openai", ""))
            case "messages":
                return WireEvent(error.body("anthropic", self._sender.request_id), "error")
            case "responses":
                data = {"type": "error", "code": error.type, "message": error.message, "param": None}
                return WireEvent({**data, "sequence_number": 0}, "error")
