"""The methods of an agent in version 2: a prompt is answered when it is inserted; an idle state ends its turn."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.session_setup import SessionParams
from duologue.errors import ConnectionLost, InvalidParams, RequestCancelled, RequestError, ResourceNotFound
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.shared.agent_methods import AgentMethods, Route
from duologue.protocol.shared.session_setup import implementation_from_wire, session_params_from_wire
from duologue.protocol.v2 import content, settings
from duologue.protocol.v2.client_proxy import V2ClientProxy
from duologue.protocol.v2.session_setup import (
    agent_capabilities_to_wire,
    auth_method_to_wire,
    client_capabilities_from_wire,
    implementation_to_wire,
)
from duologue.protocol.v2.updates import commands_to_wire
from duologue.protocol.values import PromptResult, SessionOpened
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v2
from duologue.schema.base import Other

if TYPE_CHECKING:
    from duologue.protocol.interfaces import AgentHandler


class V2AgentMethods(AgentMethods):
    """Serves one agent on one connection that uses version 2."""

    schema: ClassVar[Any] = v2
    content: ClassVar[Any] = content
    settings: ClassVar[Any] = settings

    _client: V2ClientProxy
    _mcp = v2.McpCapabilities()

    def __init__(self, agent: AgentHandler, handlers: Handlers, feature_filter: FeatureFilter) -> None:
        super().__init__(agent, handlers, feature_filter)
        self._turns: dict[str, dict[asyncio.Task[PromptResult], _Insertion]] = {}

    async def _initialize(self, context: Context, params: v2.InitializeRequest) -> v2.InitializeResponse:
        client = implementation_from_wire(params.info)
        read = client_capabilities_from_wire(params.capabilities, subagents=self._filter.allows("subagents"))
        offered = self._switched_on(read)
        self._client = V2ClientProxy(context.connection, client, offered, self._filter)
        result = await self._agent.initialize(client, offered, self._client)
        self.unregister(result.capabilities)
        methods = [m for m in result.auth_methods if offered.terminal_login or not m.is_terminal]
        if not methods:
            self._handlers.off(v2.AUTH_LOGIN)
            self._handlers.off(v2.AUTH_LOGOUT)
        # protocol/v2/initialization: a client may initialize again until it sends another request.
        context.connection.internals.allow_reinitialize()
        capabilities = self._filter.strip(agent_capabilities_to_wire(result.capabilities)) or v2.AgentCapabilities()
        self._mcp = (capabilities.session or v2.SessionCapabilities()).mcp or v2.McpCapabilities()
        return v2.InitializeResponse(
            protocol_version=2,
            info=implementation_to_wire(result.info),
            capabilities=capabilities,
            auth_methods=[auth_method_to_wire(method) for method in methods],
            meta=self._advertised_meta(offered, result.capabilities),
        )

    def _own_routes(self) -> list[Route]:
        return [
            (None, v2.AUTH_LOGIN, self._authenticate),
            (None, v2.AUTH_LOGOUT, self._logout),
            (None, v2.SESSION_PROMPT, self._prompt),
            (None, v2.SESSION_RESUME, self._resume),
            (None, v2.SESSION_LIST, self._list),
            (None, v2.SESSION_CLOSE, self._close),
            (None, v2.TOOL_CALL_CANCEL, self._cancel_tool_call),
            (None, v2.TERMINAL_CANCEL, self._cancel_terminal),
        ]

    # --- authentication

    async def _authenticate(self, context: Context, params: v2.LoginAuthRequest) -> v2.LoginAuthResponse:
        await self._agent.authenticate(params.method_id, params.meta)
        return v2.LoginAuthResponse()

    async def _logout(self, context: Context, params: v2.LogoutAuthRequest) -> v2.LogoutAuthResponse:
        await self._agent.logout()
        return v2.LogoutAuthResponse()

    # --- sessions

    def _setup(self, params: Any) -> SessionParams:
        supported = {"stdio": self._mcp.stdio, "http": self._mcp.http, "acp": self._mcp.acp}
        for index, server in enumerate(params.mcp_servers):
            kind = server.tag if isinstance(server, Other) else str(server.__struct_config__.tag)
            if supported.get(str(kind)) is None:
                raise InvalidParams(
                    f"$.mcpServers[{index}]: this agent does not support MCP servers of type {str(kind)[:200]!r}; "
                    f"`session.mcp` of its capabilities lists those it supports"
                )
        return session_params_from_wire(v2, params, content.blocks_from_wire)

    async def _resume(self, context: Context, params: v2.ResumeSessionRequest) -> Any:
        if isinstance(params.replay_from, Other):
            raise InvalidParams(f"$.replayFrom: replay from {params.replay_from.tag!r} is not supported; use `start`")
        opened = await self._agent.open_session(
            params.session_id, self._setup(params), replay=params.replay_from is not None
        )
        # protocol/v2/session-setup: after the replay, before the answer.
        await self._client.send_state(params.session_id)
        return self._opened(context, "ResumeSessionResponse", opened)

    def _opened(self, context: Context, name: str, opened: SessionOpened, **fields: Any) -> Any:
        self._client.opened(opened.session_id)
        self._announce(context, opened.session_id)
        return getattr(v2, name)(
            config_options=self._options_to_wire(opened.settings),
            available_commands=commands_to_wire(opened.commands),
            meta=opened.meta,
            **fields,
        )

    async def _status(self, context: Context, params: v2.SessionStatusRequest) -> v2.SessionStatusResponse:
        status = await self._agent.session_status(params.session_id)
        return v2.SessionStatusResponse(status=status, state=self._client.state_of(params.session_id))

    async def _close(self, context: Context, params: v2.CloseSessionRequest) -> v2.CloseSessionResponse:
        with suppress(ResourceNotFound):  # a session that is not open counts as closed
            await super()._close(context, params)
        await self._ended(params.session_id)
        return v2.CloseSessionResponse()

    async def _delete(self, context: Context, params: v2.DeleteSessionRequest) -> v2.DeleteSessionResponse:
        answer: v2.DeleteSessionResponse = await super()._delete(context, params)
        await self._ended(params.session_id)
        return answer

    async def _archive(self, context: Context, params: v2.ArchiveSessionRequest) -> v2.ArchiveSessionResponse:
        answer: v2.ArchiveSessionResponse = await super()._archive(context, params)
        await self._ended(params.session_id)
        return answer

    async def _ended(self, session_id: str) -> None:
        """Wait until the ends of all turns of a closed session have been sent, and forget the session."""
        turns = self._turns.get(session_id)
        if turns:
            await asyncio.wait(turns)
        self._client.forget(session_id)

    # --- the turn

    async def _prompt(self, context: Context, params: v2.PromptRequest) -> v2.PromptResponse:
        """Answer once the prompt is in the conversation; its turn continues after that."""
        turns = self._turns.setdefault(params.session_id, {})
        insertion = _Insertion(self._client, params.session_id, content.blocks_from_wire(params.prompt), list(turns))
        turn = self._tasks.start(self._turn(context, insertion, params.meta))
        turns[turn] = insertion
        turn.add_done_callback(lambda _: self._forget_turn(params.session_id, turn))
        try:
            ends: set[asyncio.Future[Any]] = {turn, insertion.message_id}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            turn.cancel()
            if not insertion.message_id.done():
                insertion.is_cancelled = True
                raise
            # Too late: the message is in the conversation. The client gets its id, and that the work was cancelled.
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        if not insertion.message_id.done():
            turn.result()  # raises the reason, if there is one
            raise RequestCancelled("the prompt was cancelled before it was inserted")
        context.after_response(insertion.on_answered)
        return v2.PromptResponse(message_id=insertion.message_id.result())

    async def _cancel(self, context: Context, params: v2.CancelSessionNotification) -> None:
        for insertion in self._turns.get(params.session_id, {}).values():
            insertion.is_cancelled = True  # the agent may not have received a prompt sent just before
        await super()._cancel(context, params)

    async def _turn(self, context: Context, insertion: _Insertion, meta: JsonObject | None) -> PromptResult:
        insertion.check()
        try:
            result = await self._agent.prompt(insertion.session_id, insertion.prompt, meta, insertion.insert)
        except Exception as error:
            if insertion.message_id.done():
                await insertion.end(context.connection.internals.error_for(error, context.method))
            raise
        if insertion.message_id.done():
            await insertion.end(result)
        return result

    def _forget_turn(self, session_id: str, turn: asyncio.Task[PromptResult]) -> None:
        running = self._turns[session_id]
        del running[turn]
        if not running:
            del self._turns[session_id]
        if not turn.cancelled():
            turn.exception()  # was sent in the answer or in the idle state

    async def _cancel_tool_call(self, context: Context, params: v2.CancelToolCallRequest) -> v2.CancelToolCallResponse:
        await self._agent.cancel_tool_call(params.session_id, params.tool_call_id)
        return v2.CancelToolCallResponse()

    async def _cancel_terminal(self, context: Context, params: v2.CancelTerminalRequest) -> v2.CancelTerminalResponse:
        await self._agent.cancel_terminal(params.session_id, params.terminal_id)
        return v2.CancelTerminalResponse()

    # --- settings

    async def _set_option(self, context: Context, params: Any) -> Any:
        if isinstance(params, Other):
            raise InvalidParams(f"$.type: no config option has a value of type {params.tag!r}")
        return await super()._set_option(context, params)


class _Insertion:
    """A prompt that is being inserted into the conversation.

    The client receives the answer, then that work begins, then that it has ended.

    Args:
        client: The client.
        session_id: The id of the session.
        prompt: The content to insert.
        before: The turns before this one; their ends are sent before anything of this one.
    """

    def __init__(
        self, client: V2ClientProxy, session_id: str, prompt: list[Content], before: list[asyncio.Task[PromptResult]]
    ) -> None:
        self.session_id = session_id
        self.prompt = prompt
        self.is_cancelled = False
        self._before = before
        self.message_id: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._client = client
        self._answered = asyncio.Event()
        self._has_begun = False

    async def insert(self, message_id: str) -> None:
        """Insert the prompt after all turns before it have ended."""
        if unfinished := [turn for turn in self._before if not turn.done()]:
            await asyncio.wait(unfinished)
        self._before.clear()
        self.check()
        self.message_id.set_result(message_id)
        await self._begin()

    def check(self) -> None:
        """Raise `RequestCancelled` if the client has cancelled the prompt."""
        if self.is_cancelled:
            raise RequestCancelled("the prompt was cancelled before it was inserted")

    async def on_answered(self) -> None:
        """Note that the answer, with the id of the message, was sent."""
        self._answered.set()

    async def end(self, ended: PromptResult | RequestError) -> None:
        """Send the end of the turn."""
        with suppress(ConnectionLost):
            await self._begin()
            await self._client.end_turn(self.session_id, ended)

    async def _begin(self) -> None:
        await self._answered.wait()
        if not self._has_begun:
            self._has_begun = True
            await self._client.begin_turn(self.session_id, self.message_id.result(), self.prompt)
