"""The agent on duologue's connection and schema."""

from __future__ import annotations

from itertools import count

from benchmarks.network import WIRE
from benchmarks.script import IS_SAME, MAX_MESSAGE_BYTES, run
from benchmarks.wire import CHUNK_TEXTS, text
from duologue.jsonrpc import framing
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v1
from duologue.transports.base import Transport
from duologue.transports.stdio.stdio import StdioTransport

MESSAGE_ID = "msg_97476f266e70fcfd"
handlers = Handlers()
numbers = count(1)


@handlers.on(v1.INITIALIZE)
async def initialize(context: Context, params: v1.InitializeRequest) -> v1.InitializeResponse:
    return v1.InitializeResponse(protocol_version=1)


@handlers.on(v1.SESSION_NEW)
async def new_session(context: Context, params: v1.NewSessionRequest) -> v1.NewSessionResponse:
    if IS_SAME:
        return v1.NewSessionResponse(session_id=f"sess_{next(numbers):032x}")
    return v1.NewSessionResponse(session_id=f"session-{next(numbers)}")


@handlers.on(v1.SESSION_SET_MODE)
async def set_mode(context: Context, params: v1.SetSessionModeRequest) -> v1.SetSessionModeResponse:
    return v1.SetSessionModeResponse()


@handlers.on(v1.SESSION_SET_CONFIG_OPTION)
async def set_config_option(
    context: Context, params: v1.SetSessionConfigOptionRequest
) -> v1.SetSessionConfigOptionResponse:
    options = [v1.SessionConfigSelectOption(value=name, name=name.title()) for name in ("ask", "write")]
    mode = v1.SessionConfigSelect(id="mode", name="Mode", current_value="ask", options=options, category="mode")
    return v1.SetSessionConfigOptionResponse(config_options=[mode])


@handlers.on(v1.SESSION_PROMPT)
async def prompt(context: Context, params: v1.PromptRequest) -> v1.PromptResponse:
    block = params.prompt[0]
    assert isinstance(block, v1.TextContent)
    word, _, argument = block.text[:32].partition(" ")
    texts = {"stream": CHUNK_TEXTS, "flood": [text(2000)], "echo": [block.text]}[word]
    for i in range(1 if word == "echo" else int(argument)):
        content = v1.TextContent(text=texts[i % len(texts)])
        update = v1.AgentMessageChunk(content=content, message_id=MESSAGE_ID if IS_SAME else None)
        await context.connection.notify(
            v1.SESSION_UPDATE, v1.SessionNotification(session_id=params.session_id, update=update)
        )
    return v1.PromptResponse(stop_reason="end_turn")


class Agent:
    async def serve(self, transport: Transport) -> None:
        async with Connection(transport, handlers, first_method="initialize") as connection:
            await connection.wait_closed()


if WIRE:
    from benchmarks.programs.listening import listen

    listen(Agent())
else:
    stdio = StdioTransport(max_message_bytes=MAX_MESSAGE_BYTES or framing.MAX_MESSAGE_BYTES)
    run(Agent().serve(stdio))
