"""The methods of an agent, apart from those that differ between versions.

Only what the agent offers stays registered; every other method is answered with "no such method".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from msgspec import structs

from duologue.conversation.content import JsonObject
from duologue.conversation.fields import convert_fields
from duologue.conversation.session_setup import SessionParams
from duologue.conversation.settings import ConfigOption
from duologue.errors import ConnectionLost, MethodNotFound
from duologue.protocol.background_tasks import STOP_TASK, StopTaskRequest, StopTaskResponse, with_tasks_declared
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.meta import RequestMeta, handled_request, with_meta
from duologue.protocol.shared.client_proxy import auth_status_to_wire
from duologue.protocol.shared.session_setup import session_info_to_wire
from duologue.protocol.steering import STEERING, STEERING_META, SteerResponse, answer_to_wire
from duologue.protocol.values import AgentCapabilities, ClientCapabilities, Provider, SessionOpened
from duologue.runtime.handlers import Context, Handlers
from duologue.runtime.tasks import TaskScope
from duologue.schema.base import Method, Notification, Other

if TYPE_CHECKING:
    from duologue.protocol.interfaces import AgentHandler

Handler: TypeAlias = Callable[[Context, Any], Awaitable[Any]]
Route: TypeAlias = tuple[str | None, Method[Any, Any] | Notification[Any], Handler]
"""The capability that a method needs (None if every agent has it), the method, and its handler."""

CLOSE_GRACE = 1.0
"""Seconds that background tasks get to end after they were cancelled."""


class AgentMethods(ABC):
    """Serves one agent on one connection.

    Args:
        agent: The agent.
        handlers: The handlers of the connection. Every method is registered at once, because a client may send
            requests before `initialize` is answered; those that the agent does not offer are removed afterwards.
        feature_filter: Leaves out unstable features that are not switched on.
    """

    schema: ClassVar[Any]
    """The package of this version's shapes. Those used here have the same fields in every version."""
    content: ClassVar[Any]
    """The module that converts content blocks."""
    settings: ClassVar[Any]
    """The module that converts config options."""

    def __init__(self, agent: AgentHandler, handlers: Handlers, feature_filter: FeatureFilter) -> None:
        self._agent = agent
        self._filter = feature_filter
        self._handlers = handlers
        self._capabilities: AgentCapabilities | None = None
        self._tasks = TaskScope()
        """Work that continues after its request was answered."""
        self._routes = [*self._own_routes(), *self._common_routes()]
        first: Method[Any, Any] = self.schema.INITIALIZE
        handlers.on(first)(self._with_meta(self._initialize))
        for capability, method, handler in self._routes:
            handlers.on(method)(self._if_advertised(capability, method, self._with_meta(handler)))

    @abstractmethod
    async def _initialize(self, context: Context, params: Any) -> Any:
        """Answer `initialize`, and remove what the agent does not offer with `unregister`."""

    @abstractmethod
    def _own_routes(self) -> list[Route]:
        """Return the methods that differ between versions."""

    async def aclose(self) -> None:
        """Cancel the background tasks after the client has gone and its sessions have ended."""
        await self._tasks.cancel(CLOSE_GRACE)

    def _common_routes(self) -> list[Route]:
        schema = self.schema
        return [
            (None, schema.SESSION_NEW, self._new),
            (None, schema.SESSION_CANCEL, self._cancel),
            (None, schema.SESSION_SET_CONFIG_OPTION, self._set_option),
            ("steering", Method(STEERING, schema.PromptRequest, SteerResponse, stable=False), self._steer),
            ("background_tasks", Method(STOP_TASK, StopTaskRequest, StopTaskResponse, stable=False), self._stop_task),
            ("fork", schema.SESSION_FORK, self._fork),
            ("delete", schema.SESSION_DELETE, self._delete),
            ("archive", schema.SESSION_ARCHIVE, self._archive),
            ("archive", schema.SESSION_UNARCHIVE, self._unarchive),
            ("status", schema.SESSION_STATUS, self._status),
            ("title", schema.SESSION_SET_TITLE, self._set_title),
            ("login_status", schema.AUTH_STATUS, self._auth_status),
            ("mcp_acp", schema.MCP_MESSAGE_NOTIFICATION, self._mcp_message),
            ("providers", schema.PROVIDERS_LIST, self._list_providers),
            ("providers", schema.PROVIDERS_SET, self._set_provider),
            ("providers", schema.PROVIDERS_DISABLE, self._disable_provider),
        ]

    def _switched_on(self, capabilities: ClientCapabilities) -> ClientCapabilities:
        """Return the capabilities of a client without background tasks if they are not switched on here."""
        is_on = capabilities.background_tasks and self._filter.allows("background_tasks")
        return structs.replace(capabilities, background_tasks=is_on)

    def _advertised_meta(self, client: ClientCapabilities, agent: AgentCapabilities) -> JsonObject | None:
        """Return `_meta` of the answer to `initialize`, which advertises the extensions."""
        meta = STEERING_META if agent.steering else None
        return with_tasks_declared(meta) if agent.background_tasks and client.background_tasks else meta

    def _with_meta(self, handler: Handler) -> Handler:
        """Wrap a handler so that the agent sees the `_meta` of the request and can add to that of the answer."""

        async def handle(context: Context, params: Any) -> Any:
            meta = params.get("_meta") if isinstance(params, Other) else params.meta
            request = RequestMeta(context.method, meta, context.id)
            token = handled_request.set(request)
            try:
                self._agent.requested(request)
                result = self._filter.strip(await handler(context, params))
                return with_meta(result, request.answer) if request.answer and result is not None else result
            finally:
                handled_request.reset(token)

        return handle

    def unregister(self, capabilities: AgentCapabilities | None = None) -> None:
        """Remove the methods that need a capability the agent does not have; without capabilities, all methods."""
        self._capabilities = capabilities
        for capability, method, _ in self._routes:
            if capabilities is None or not self._is_offered(capability, method):
                self._handlers.off(method)

    def _is_offered(self, capability: str | None, method: Method[Any, Any] | Notification[Any]) -> bool:
        return self._filter.serves(method) and (
            capability is None or bool(getattr(self._capabilities, capability, False))
        )

    def _if_advertised(
        self, capability: str | None, method: Method[Any, Any] | Notification[Any], handler: Handler
    ) -> Handler:
        """Wrap a handler so that it rejects requests that arrived before the agent's capabilities were known."""
        if capability is None:
            return handler

        async def handle(context: Context, params: Any) -> Any:
            if not self._is_offered(capability, method):
                raise MethodNotFound(f"no such method: {method.name}", data={"method": method.name})
            return await handler(context, params)

        return handle

    # --- sessions

    @abstractmethod
    def _setup(self, params: Any) -> SessionParams:
        """Read what a session is opened with.

        Raises:
            InvalidParams: It names an MCP server of a type that this agent does not support.
        """

    @abstractmethod
    def _opened(self, context: Context, name: str, opened: SessionOpened, **fields: Any) -> Any:
        """Build the answer that opens a session, and announce the session once that was sent.

        Args:
            context: Of the request.
            name: The class of the answer.
            opened: The session.
            fields: The fields that this answer has and others have not.
        """

    def _announce(self, context: Context, session_id: str, before: Callable[[], Awaitable[None]] | None = None) -> None:
        """Tell the agent that the client knows the session, once the answer was sent and `before` has run."""

        async def announce() -> None:
            with suppress(ConnectionLost):
                if before is not None:
                    await before()
                await self._agent.session_announced(session_id)

        context.after_response(announce)

    async def _new(self, context: Context, params: Any) -> Any:
        opened = await self._agent.new_session(self._setup(params))
        return self._opened(context, "NewSessionResponse", opened, session_id=opened.session_id)

    async def _fork(self, context: Context, params: Any) -> Any:
        opened = await self._agent.fork_session(params.session_id, self._setup(params))
        return self._opened(context, "ForkSessionResponse", opened, session_id=opened.session_id)

    async def _list(self, context: Context, params: Any) -> Any:
        found, cursor = await self._agent.list_sessions(params.cwd, params.cursor, params.archived or "exclude")
        sessions = [session_info_to_wire(self.schema, info) for info in found]
        return self.schema.ListSessionsResponse(sessions=sessions, next_cursor=cursor)

    async def _close(self, context: Context, params: Any) -> Any:
        await self._agent.close_session(params.session_id)
        return self.schema.CloseSessionResponse()

    async def _set_option(self, context: Context, params: Any) -> Any:
        options = await self._agent.set_setting(params.session_id, params.config_id, params.value)
        return self.schema.SetSessionConfigOptionResponse(config_options=self._options_to_wire(options))

    def _options_to_wire(self, options: list[ConfigOption]) -> list[Any]:
        return [self.settings.config_option_to_wire(option) for option in options]

    async def _cancel(self, context: Context, params: Any) -> None:
        self._agent.cancel(params.session_id)

    async def _steer(self, context: Context, params: Any) -> SteerResponse:
        prompt = self.content.blocks_from_wire(params.prompt)
        return answer_to_wire(await self._agent.steer(params.session_id, prompt, params.meta), params.meta)

    async def _stop_task(self, context: Context, params: StopTaskRequest) -> StopTaskResponse:
        return StopTaskResponse(stopped=await self._agent.stop_task(params.session_id, params.async_task_id))

    async def _delete(self, context: Context, params: Any) -> Any:
        await self._agent.delete_session(params.session_id)
        return self.schema.DeleteSessionResponse()

    async def _archive(self, context: Context, params: Any) -> Any:
        await self._agent.archive_session(params.session_id, True)
        return self.schema.ArchiveSessionResponse()

    async def _unarchive(self, context: Context, params: Any) -> Any:
        await self._agent.archive_session(params.session_id, False)
        return self.schema.UnarchiveSessionResponse()

    async def _status(self, context: Context, params: Any) -> Any:
        return self.schema.SessionStatusResponse(status=await self._agent.session_status(params.session_id))

    async def _set_title(self, context: Context, params: Any) -> Any:
        title = await self._agent.set_title(params.session_id, params.title)
        return self.schema.SetSessionTitleResponse(title=title)

    # --- authentication, providers and MCP

    async def _auth_status(self, context: Context, params: Any) -> Any:
        return auth_status_to_wire(self.schema, await self._agent.auth_status(), self.schema.AuthStatusResponse)

    async def _list_providers(self, context: Context, params: Any) -> Any:
        providers = [self._provider_to_wire(provider) for provider in await self._agent.list_providers()]
        return self.schema.ListProvidersResponse(providers=providers)

    def _provider_to_wire(self, provider: Provider) -> Any:
        schema = self.schema
        current = None
        if provider.api_type is not None:
            current = schema.ProviderCurrentConfig(api_type=provider.api_type, base_url=provider.base_url or "")
        return convert_fields(provider, schema.ProviderInfo, current=current)

    async def _set_provider(self, context: Context, params: Any) -> Any:
        await self._agent.set_provider(params.provider_id, params.api_type, params.base_url, params.headers)
        return self.schema.SetProviderResponse()

    async def _disable_provider(self, context: Context, params: Any) -> Any:
        await self._agent.disable_provider(params.provider_id)
        return self.schema.DisableProviderResponse()

    async def _mcp_message(self, context: Context, params: Any) -> None:
        self._agent.mcp_message(params.server_id, params.request_id, params.method, params.params)
