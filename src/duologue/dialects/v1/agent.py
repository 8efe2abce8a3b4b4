"""An agent on the wire of version 1: each request becomes a call of its core, each answer a result.

Only what the agent offers is registered, so that everything else is answered with "no such method".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

from duologue.conversation.setup import SessionSetup
from duologue.conversation.updates import CommandsChanged
from duologue.dialects.contract import AgentCore
from duologue.dialects.meta import answering, with_meta
from duologue.dialects.terms import AgentFeatures, Opened, TokenUsage
from duologue.dialects.v1.content import blocks_from_wire
from duologue.dialects.v1.editor import V1Editor, accounts_to_wire
from duologue.dialects.v1.settings import models_to_wire, modes_to_wire, setting_to_wire
from duologue.dialects.v1.setup import (
    agent_features_to_wire,
    client_features_from_wire,
    info_to_wire,
    login_to_wire,
    party_from_wire,
    party_to_wire,
    setup_from_wire,
)
from duologue.errors import ConnectionLost, MethodNotFound
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import legacy, v1
from duologue.schema.base import Method, Notification

__all__ = ["V1AgentDialect"]

_PROMPT = Method(
    v1.SESSION_PROMPT.name,
    v1.SESSION_PROMPT.params,
    v1.SESSION_PROMPT.result,
    in_order=v1.SESSION_PROMPT.in_order,
    answers_cancel=True,
)
"""A turn that is cancelled ends with a stop reason, by whatever message that was asked for and however early."""


_Handler: TypeAlias = Callable[[Context, Any], Awaitable[Any]]


class V1AgentDialect:
    """Serves one agent core on one connection.

    Args:
        core: The agent.
        handlers: The table of the connection. Everything is registered at once, because a client may send its next
            requests without waiting for the answer to `initialize`; what the agent turns out not to offer is taken
            away again.
    """

    def __init__(self, core: AgentCore, handlers: Handlers) -> None:
        self._core = core
        self._handlers = handlers
        self._has_boolean_settings = False
        self._editor: V1Editor | None = None
        self._features: AgentFeatures | None = None
        handlers.on(v1.INITIALIZE)(self._attaching(self._initialize))
        for feature, method, handler in self._table():
            handlers.on(method)(self._if_offered(feature, method, self._attaching(handler)))

    async def _initialize(self, context: Context, params: v1.InitializeRequest) -> v1.InitializeResponse:
        client = party_from_wire(params.client_info)
        features = client_features_from_wire(params.client_capabilities)
        self._has_boolean_settings = features.boolean_settings
        self._editor = V1Editor(context.connection, client, features)
        welcome = await self._core.initialize(client, features, self._editor)
        self._withdraw(welcome.features)
        methods = [
            login_to_wire(method)
            for method in welcome.login_methods
            if features.terminal_login or not method.is_terminal
        ]
        return v1.InitializeResponse(
            protocol_version=1,
            agent_capabilities=agent_features_to_wire(welcome.features),
            auth_methods=methods,
            agent_info=party_to_wire(welcome.info),
        )

    def _table(self) -> list[tuple[str | None, Method[Any, Any] | Notification[Any], Any]]:
        """Every method, with the feature that offers it if not every agent does."""
        return [
            (None, v1.AUTHENTICATE, self._authenticate),
            (None, v1.SESSION_NEW, self._new),
            (None, _PROMPT, self._prompt),
            (None, v1.SESSION_CANCEL, self._cancel),
            (None, v1.SESSION_SET_MODE, self._set_mode),
            (None, v1.SESSION_SET_CONFIG_OPTION, self._set_option),
            (None, legacy.SESSION_SET_MODEL, self._set_model),
            ("load", v1.SESSION_LOAD, self._load),
            ("resume", v1.SESSION_RESUME, self._resume),
            ("list", v1.SESSION_LIST, self._list),
            ("close", v1.SESSION_CLOSE, self._close),
            ("delete", v1.SESSION_DELETE, self._delete),
            ("fork", v1.SESSION_FORK, self._fork),
            ("archive", v1.SESSION_ARCHIVE, self._archive),
            ("archive", v1.SESSION_UNARCHIVE, self._unarchive),
            ("status", v1.SESSION_STATUS, self._status),
            ("title", v1.SESSION_SET_TITLE, self._set_title),
            ("logout", v1.LOGOUT, self._logout),
            ("login_status", v1.AUTH_STATUS, self._login_status),
            ("mcp_acp", v1.MCP_MESSAGE_NOTIFICATION, self._mcp_message),
            ("providers", v1.PROVIDERS_LIST, self._list_providers),
            ("providers", v1.PROVIDERS_SET, self._set_provider),
            ("providers", v1.PROVIDERS_DISABLE, self._disable_provider),
        ]

    def _attaching(self, handler: _Handler) -> _Handler:
        """Let the agent see what came with a request, before and while it is handled, and add to the answer."""

        async def handle(context: Context, params: Any) -> Any:
            with answering(context.method, params.meta) as request:
                self._core.requested(request)
                result = await handler(context, params)
                return with_meta(result, request.answer) if request.answer and result is not None else result

        return handle

    def _withdraw(self, features: AgentFeatures) -> None:
        """Take away what this agent does not offer."""
        self._features = features
        for feature, method, _ in self._table():
            if feature is not None and not getattr(features, feature):
                self._handlers.off(method)

    def _if_offered(
        self, feature: str | None, method: Method[Any, Any] | Notification[Any], handler: _Handler
    ) -> _Handler:
        """For requests that came before it was known what this agent offers."""
        if feature is None:
            return handler

        async def handle(context: Context, params: Any) -> Any:
            if not getattr(self._features, feature, False):
                raise MethodNotFound(f"no such method: {method.name}", data={"method": method.name})
            return await handler(context, params)

        return handle

    # --- login

    async def _authenticate(self, context: Context, params: v1.AuthenticateRequest) -> v1.AuthenticateResponse:
        await self._core.login(params.method_id, params.meta)
        return v1.AuthenticateResponse()

    async def _logout(self, context: Context, params: v1.LogoutRequest) -> v1.LogoutResponse:
        await self._core.logout()
        return v1.LogoutResponse()

    async def _login_status(self, context: Context, params: v1.AuthStatusRequest) -> v1.AuthStatusResponse:
        status = await self._core.login_status()
        return v1.AuthStatusResponse(state=status.state, accounts=accounts_to_wire(status), meta=status.meta)

    # --- sessions

    async def _new(self, context: Context, params: v1.NewSessionRequest) -> v1.NewSessionResponse:
        opened = await self._core.new_session(setup_from_wire(params))
        self._follow_up(context, opened.session_id, opened)
        response = v1.NewSessionResponse if opened.models is None else legacy.NewSessionResponse
        return response(session_id=opened.session_id, **self._state_of(opened))

    async def _load(self, context: Context, params: v1.LoadSessionRequest) -> v1.LoadSessionResponse:
        opened = await self._core.open_session(params.session_id, setup_from_wire(params), replay=True)
        self._follow_up(context, params.session_id, opened)
        response = v1.LoadSessionResponse if opened.models is None else legacy.LoadSessionResponse
        return response(**self._state_of(opened))

    async def _resume(self, context: Context, params: v1.ResumeSessionRequest) -> v1.ResumeSessionResponse:
        opened = await self._core.open_session(params.session_id, setup_from_wire(params), replay=False)
        self._follow_up(context, params.session_id, opened)
        response = v1.ResumeSessionResponse if opened.models is None else legacy.ResumeSessionResponse
        return response(**self._state_of(opened))

    async def _fork(self, context: Context, params: v1.ForkSessionRequest) -> v1.ForkSessionResponse:
        setup: SessionSetup = setup_from_wire(params)
        opened = await self._core.fork_session(params.session_id, setup)
        self._follow_up(context, opened.session_id, opened)
        response = v1.ForkSessionResponse if opened.models is None else legacy.ForkSessionResponse
        return response(session_id=opened.session_id, **self._state_of(opened))

    def _follow_up(self, context: Context, session_id: str, opened: Opened) -> None:
        """Version 1 tells commands in an update, which belongs after the answer that opens the session."""

        async def tell() -> None:
            with suppress(ConnectionLost):
                if opened.commands and self._editor is not None:
                    await self._editor.update(session_id, CommandsChanged(commands=opened.commands))
                await self._core.introduced(session_id)

        context.after_response(tell)

    def _state_of(self, opened: Opened) -> dict[str, Any]:
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

    async def _delete(self, context: Context, params: v1.DeleteSessionRequest) -> v1.DeleteSessionResponse:
        await self._core.delete_session(params.session_id)
        return v1.DeleteSessionResponse()

    async def _archive(self, context: Context, params: v1.ArchiveSessionRequest) -> v1.ArchiveSessionResponse:
        await self._core.archive_session(params.session_id, True)
        return v1.ArchiveSessionResponse()

    async def _unarchive(self, context: Context, params: v1.UnarchiveSessionRequest) -> v1.UnarchiveSessionResponse:
        await self._core.archive_session(params.session_id, False)
        return v1.UnarchiveSessionResponse()

    async def _status(self, context: Context, params: v1.SessionStatusRequest) -> v1.SessionStatusResponse:
        return v1.SessionStatusResponse(status=await self._core.session_status(params.session_id))

    async def _set_title(self, context: Context, params: v1.SetSessionTitleRequest) -> v1.SetSessionTitleResponse:
        return v1.SetSessionTitleResponse(title=await self._core.set_title(params.session_id, params.title))

    # --- the turn

    async def _prompt(self, context: Context, params: v1.PromptRequest) -> v1.PromptResponse:
        result = await self._core.prompt(params.session_id, blocks_from_wire(params.prompt), params.meta)
        return v1.PromptResponse(stop_reason=result.stop_reason, usage=_usage_to_wire(result.usage), meta=result.meta)

    async def _cancel(self, context: Context, params: v1.CancelNotification) -> None:
        self._core.cancel(params.session_id)

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

    # --- providers and MCP

    async def _list_providers(self, context: Context, params: v1.ListProvidersRequest) -> v1.ListProvidersResponse:
        providers = [
            v1.ProviderInfo(
                provider_id=provider.provider_id,
                supported=provider.supported,
                required=provider.required,
                current=(
                    None
                    if provider.api_type is None
                    else v1.ProviderCurrentConfig(api_type=provider.api_type, base_url=provider.base_url or "")
                ),
                meta=provider.meta,
            )
            for provider in await self._core.list_providers()
        ]
        return v1.ListProvidersResponse(providers=providers)

    async def _set_provider(self, context: Context, params: v1.SetProviderRequest) -> v1.SetProviderResponse:
        await self._core.set_provider(params.provider_id, params.api_type, params.base_url, params.headers)
        return v1.SetProviderResponse()

    async def _disable_provider(
        self, context: Context, params: v1.DisableProviderRequest
    ) -> v1.DisableProviderResponse:
        await self._core.disable_provider(params.provider_id)
        return v1.DisableProviderResponse()

    async def _mcp_message(self, context: Context, params: v1.MessageMcpNotification) -> None:
        self._core.mcp_message(params.server_id, params.request_id, params.method, params.params)


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
