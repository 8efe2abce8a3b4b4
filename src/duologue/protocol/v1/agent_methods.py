"""An agent on the wire of version 1: each request becomes a call of its core, each answer a result."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar

from duologue.conversation.session_setup import SessionParams, UnknownMcpServer
from duologue.conversation.updates import CommandsUpdate
from duologue.errors import ConnectionLost, InvalidParams
from duologue.protocol.shared.agent_methods import AgentMethods, Route
from duologue.protocol.v1.client_proxy import V1ClientProxy
from duologue.protocol.v1.content import blocks_from_wire
from duologue.protocol.v1.session_setup import (
    SetupRequest,
    agent_features_to_wire,
    client_features_from_wire,
    info_to_wire,
    login_to_wire,
    party_from_wire,
    party_to_wire,
    setup_from_wire,
)
from duologue.protocol.v1.settings import models_to_wire, modes_to_wire, setting_to_wire
from duologue.protocol.values import SessionOpened, TokenUsage
from duologue.runtime.handlers import Context
from duologue.schema import legacy, v1
from duologue.schema.base import Method

__all__ = ["V1AgentMethods"]

_PROMPT = Method(
    v1.SESSION_PROMPT.name,
    v1.SESSION_PROMPT.params,
    v1.SESSION_PROMPT.result,
    in_order=v1.SESSION_PROMPT.in_order,
    answers_cancel=True,
)
"""A turn that is cancelled ends with a stop reason, by whatever message that was asked for and however early."""


class V1AgentMethods(AgentMethods):
    """Serves one agent core on one connection that speaks version 1."""

    schema: ClassVar[Any] = v1
    _has_boolean_settings = False
    _editor: V1ClientProxy | None = None

    async def _initialize(self, context: Context, params: v1.InitializeRequest) -> v1.InitializeResponse:
        client = party_from_wire(params.client_info)
        features = client_features_from_wire(self._gate.strip(params.client_capabilities) or v1.ClientCapabilities())
        self._has_boolean_settings = features.boolean_settings
        self._editor = V1ClientProxy(context.connection, client, features, self._gate)
        welcome = await self._core.initialize(client, features, self._editor)
        self.unregister(welcome.capabilities)
        methods = [
            login_to_wire(method)
            for method in welcome.login_methods
            if features.terminal_login or not method.is_terminal
        ]
        return v1.InitializeResponse(
            protocol_version=1,
            agent_capabilities=agent_features_to_wire(welcome.capabilities),
            auth_methods=methods,
            agent_info=party_to_wire(welcome.info),
        )

    def _own_rows(self) -> list[Route]:
        return [
            (None, v1.AUTHENTICATE, self._authenticate),
            (None, v1.SESSION_NEW, self._new),
            (None, _PROMPT, self._prompt),
            (None, v1.SESSION_SET_MODE, self._set_mode),
            (None, v1.SESSION_SET_CONFIG_OPTION, self._set_option),
            (None, legacy.SESSION_SET_MODEL, self._set_model),
            ("load", v1.SESSION_LOAD, self._load),
            ("resume", v1.SESSION_RESUME, self._resume),
            ("list", v1.SESSION_LIST, self._list),
            ("close", v1.SESSION_CLOSE, self._close),
            ("fork", v1.SESSION_FORK, self._fork),
            ("logout", v1.LOGOUT, self._logout),
        ]

    # --- login

    async def _authenticate(self, context: Context, params: v1.AuthenticateRequest) -> v1.AuthenticateResponse:
        await self._core.login(params.method_id, params.meta)
        return v1.AuthenticateResponse()

    async def _logout(self, context: Context, params: v1.LogoutRequest) -> v1.LogoutResponse:
        await self._core.logout()
        return v1.LogoutResponse()

    # --- sessions

    async def _new(self, context: Context, params: v1.NewSessionRequest) -> v1.NewSessionResponse:
        opened = await self._core.new_session(_setup(params))
        self._follow_up(context, opened.session_id, opened)
        response = v1.NewSessionResponse if opened.models is None else legacy.NewSessionResponse
        return response(session_id=opened.session_id, **self._state_of(opened))

    async def _load(self, context: Context, params: v1.LoadSessionRequest) -> v1.LoadSessionResponse:
        opened = await self._core.open_session(params.session_id, _setup(params), replay=True)
        self._follow_up(context, params.session_id, opened)
        response = v1.LoadSessionResponse if opened.models is None else legacy.LoadSessionResponse
        return response(**self._state_of(opened))

    async def _resume(self, context: Context, params: v1.ResumeSessionRequest) -> v1.ResumeSessionResponse:
        opened = await self._core.open_session(params.session_id, _setup(params), replay=False)
        self._follow_up(context, params.session_id, opened)
        response = v1.ResumeSessionResponse if opened.models is None else legacy.ResumeSessionResponse
        return response(**self._state_of(opened))

    async def _fork(self, context: Context, params: v1.ForkSessionRequest) -> v1.ForkSessionResponse:
        opened = await self._core.fork_session(params.session_id, _setup(params))
        self._follow_up(context, opened.session_id, opened)
        response = v1.ForkSessionResponse if opened.models is None else legacy.ForkSessionResponse
        return response(session_id=opened.session_id, **self._state_of(opened))

    def _follow_up(self, context: Context, session_id: str, opened: SessionOpened) -> None:
        """Version 1 tells commands in an update, which belongs after the answer that opens the session."""

        async def tell() -> None:
            with suppress(ConnectionLost):
                if opened.commands and self._editor is not None:
                    await self._editor.update(session_id, CommandsUpdate(commands=opened.commands))
                await self._core.introduced(session_id)

        context.after_response(tell)

    def _state_of(self, opened: SessionOpened) -> dict[str, Any]:
        """What every response that opens a session carries; absent rather than empty."""
        settings = [s for s in opened.settings if self._has_boolean_settings or s.kind != "boolean"]
        fields: dict[str, Any] = {
            "modes": modes_to_wire(opened.modes),
            "config_options": [setting_to_wire(setting) for setting in settings] or None,
            "meta": opened.meta,
        }
        if opened.models is not None:
            fields["models"] = models_to_wire(opened.models)
        return fields

    async def _list(self, context: Context, params: v1.ListSessionsRequest) -> v1.ListSessionsResponse:
        found, cursor = await self._core.list_sessions(params.cwd, params.cursor, params.archived or "exclude")
        return v1.ListSessionsResponse(sessions=[info_to_wire(info) for info in found], next_cursor=cursor)

    async def _close(self, context: Context, params: v1.CloseSessionRequest) -> v1.CloseSessionResponse:
        await self._core.close_session(params.session_id)
        return v1.CloseSessionResponse()

    # --- the turn

    async def _prompt(self, context: Context, params: v1.PromptRequest) -> v1.PromptResponse:
        result = await self._core.prompt(params.session_id, blocks_from_wire(params.prompt), params.meta)
        return v1.PromptResponse(stop_reason=result.stop_reason, usage=_usage_to_wire(result.usage), meta=result.meta)

    # --- settings

    async def _set_mode(self, context: Context, params: v1.SetSessionModeRequest) -> v1.SetSessionModeResponse:
        await self._core.set_mode(params.session_id, params.mode_id)
        return v1.SetSessionModeResponse()

    async def _set_option(
        self, context: Context, params: v1.SetSessionConfigOptionRequest
    ) -> v1.SetSessionConfigOptionResponse:
        settings = await self._core.set_setting(params.session_id, params.config_id, params.value)
        shown = [s for s in settings if self._has_boolean_settings or s.kind != "boolean"]
        return v1.SetSessionConfigOptionResponse(config_options=[setting_to_wire(setting) for setting in shown])

    async def _set_model(
        self, context: Context, params: legacy.SetSessionModelRequest
    ) -> legacy.SetSessionModelResponse:
        await self._core.set_model(params.session_id, params.model_id)
        return legacy.SetSessionModelResponse()


def _setup(params: SetupRequest) -> SessionParams:
    """What a session is to be opened with.

    Raises:
        InvalidParams: It names an MCP server of an unknown type, and no command to start instead.
    """
    setup = setup_from_wire(params)
    for index, server in enumerate(setup.mcp_servers):
        if isinstance(server, UnknownMcpServer):
            raise InvalidParams(
                f"$.mcpServers[{index}]: {str(server.fields.get('type'))[:200]!r} is no type of MCP server; "
                f"there are http, sse and acp, and stdio, which has a `command` and no type"
            )
    return setup


def _usage_to_wire(usage: TokenUsage | None) -> v1.Usage | None:
    if usage is None:
        return None
    return v1.Usage(
        total_tokens=usage.total,
        input_tokens=usage.input,
        output_tokens=usage.output,
        thought_tokens=usage.thought,
        cached_read_tokens=usage.cached_read,
        cached_write_tokens=usage.cached_write,
        meta=usage.meta,
    )
