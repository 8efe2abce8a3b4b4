"""The methods of an agent in version 1."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from duologue.conversation.session_setup import SessionParams, UnknownMcpServer
from duologue.conversation.settings import ConfigOption
from duologue.conversation.updates import CommandsUpdate
from duologue.errors import InvalidParams
from duologue.protocol.shared.agent_methods import AgentMethods, Route
from duologue.protocol.shared.session_setup import implementation_from_wire, session_params_from_wire
from duologue.protocol.shared.updates import token_usage_to_wire
from duologue.protocol.v1 import content, settings
from duologue.protocol.v1.client_proxy import V1ClientProxy
from duologue.protocol.v1.session_setup import (
    agent_capabilities_to_wire,
    auth_method_to_wire,
    client_capabilities_from_wire,
    implementation_to_wire,
)
from duologue.protocol.values import SessionOpened
from duologue.runtime.handlers import Context
from duologue.schema import v1
from duologue.schema.base import Method

if TYPE_CHECKING:
    from duologue.schema import legacy

_PROMPT = Method(
    v1.SESSION_PROMPT.name,
    v1.SESSION_PROMPT.params,
    v1.SESSION_PROMPT.result,
    in_order=v1.SESSION_PROMPT.in_order,
    handles_cancellation=True,
)
"""A cancelled turn ends with a stop reason, whichever message cancelled it and however early."""


class V1AgentMethods(AgentMethods):
    """Serves one agent on one connection that uses version 1."""

    schema: ClassVar[Any] = v1
    content: ClassVar[Any] = content
    settings: ClassVar[Any] = settings
    _client: V1ClientProxy

    async def _initialize(self, context: Context, params: v1.InitializeRequest) -> v1.InitializeResponse:
        client = implementation_from_wire(params.client_info)
        read = client_capabilities_from_wire(self._filter.strip(params.client_capabilities) or v1.ClientCapabilities())
        capabilities = self._switched_on(read)
        self._client = V1ClientProxy(context.connection, client, capabilities, self._filter)
        result = await self._agent.initialize(client, capabilities, self._client)
        self.unregister(result.capabilities)
        methods = [
            auth_method_to_wire(method)
            for method in result.auth_methods
            if capabilities.terminal_login or not method.is_terminal
        ]
        return v1.InitializeResponse(
            protocol_version=1,
            agent_capabilities=agent_capabilities_to_wire(result.capabilities),
            auth_methods=methods,
            agent_info=implementation_to_wire(result.info),
            meta=self._advertised_meta(capabilities, result.capabilities),
        )

    def _own_routes(self) -> list[Route]:
        routes: list[Route] = [
            (None, v1.AUTHENTICATE, self._authenticate),
            (None, _PROMPT, self._prompt),
            (None, v1.SESSION_SET_MODE, self._set_mode),
            ("load", v1.SESSION_LOAD, self._load),
            ("resume", v1.SESSION_RESUME, self._resume),
            ("list", v1.SESSION_LIST, self._list),
            ("close", v1.SESSION_CLOSE, self._close),
            ("logout", v1.LOGOUT, self._logout),
        ]
        if self._agent.offers_models:
            from duologue.schema import legacy

            routes.append((None, legacy.SESSION_SET_MODEL, self._set_model))
        return routes

    # --- authentication

    async def _authenticate(self, context: Context, params: v1.AuthenticateRequest) -> v1.AuthenticateResponse:
        await self._agent.authenticate(params.method_id, params.meta)
        return v1.AuthenticateResponse()

    async def _logout(self, context: Context, params: v1.LogoutRequest) -> v1.LogoutResponse:
        await self._agent.logout()
        return v1.LogoutResponse()

    # --- sessions

    async def _load(self, context: Context, params: v1.LoadSessionRequest) -> Any:
        opened = await self._agent.open_session(params.session_id, self._setup(params), replay=True)
        return self._opened(context, "LoadSessionResponse", opened)

    async def _resume(self, context: Context, params: v1.ResumeSessionRequest) -> Any:
        opened = await self._agent.open_session(params.session_id, self._setup(params), replay=False)
        return self._opened(context, "ResumeSessionResponse", opened)

    def _setup(self, params: Any) -> SessionParams:
        setup = session_params_from_wire(v1, params, content.blocks_from_wire)
        for index, server in enumerate(setup.mcp_servers):
            if isinstance(server, UnknownMcpServer):
                raise InvalidParams(
                    f"$.mcpServers[{index}]: {str(server.fields.get('type'))[:200]!r} is not a type of MCP server; "
                    f"use http, sse or acp, or stdio, which has a `command` and no type"
                )
        return setup

    def _opened(self, context: Context, name: str, opened: SessionOpened, **fields: Any) -> Any:
        """Build the answer with fields absent rather than empty; commands follow it in an update."""
        commands = CommandsUpdate(commands=opened.commands)
        send_commands = partial(self._client.update, opened.session_id, commands) if opened.commands else None
        self._announce(context, opened.session_id, send_commands)
        response = getattr(v1, name)
        if opened.models is not None:
            from duologue.schema import legacy

            fields["models"] = settings.models_to_wire(opened.models)
            response = getattr(legacy, name)
        return response(
            modes=settings.modes_to_wire(opened.modes),
            config_options=self._options_to_wire(opened.settings) or None,
            meta=opened.meta,
            **fields,
        )

    def _options_to_wire(self, options: list[ConfigOption]) -> list[Any]:
        if not self._client.capabilities.boolean_settings:
            options = [each for each in options if each.kind != "boolean"]
        return [settings.config_option_to_wire(option) for option in options]

    # --- the turn

    async def _prompt(self, context: Context, params: v1.PromptRequest) -> v1.PromptResponse:
        result = await self._agent.prompt(params.session_id, content.blocks_from_wire(params.prompt), params.meta)
        return v1.PromptResponse(
            stop_reason=result.stop_reason, usage=token_usage_to_wire(v1, result.usage), meta=result.meta
        )

    # --- settings

    async def _set_mode(self, context: Context, params: v1.SetSessionModeRequest) -> v1.SetSessionModeResponse:
        await self._agent.set_mode(params.session_id, params.mode_id)
        return v1.SetSessionModeResponse()

    async def _set_model(
        self, context: Context, params: legacy.SetSessionModelRequest
    ) -> legacy.SetSessionModelResponse:
        from duologue.schema import legacy

        await self._agent.set_model(params.session_id, params.model_id)
        return legacy.SetSessionModelResponse()
