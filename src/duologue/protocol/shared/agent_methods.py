"""An agent on the wire, less what differs between versions: the table of methods, and the requests that look the same.

Only what the agent offers is registered, so that everything else is answered with "no such method".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeAlias

from duologue.errors import MethodNotFound
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.interfaces import AgentHandler
from duologue.protocol.meta import request_context, with_meta
from duologue.protocol.shared.client_proxy import accounts_to_wire
from duologue.protocol.values import AgentCapabilities
from duologue.runtime.handlers import Context, Handlers
from duologue.runtime.tasks import TaskScope
from duologue.schema.base import Method, Notification, Other

__all__ = ["AgentMethods", "Route"]

Handler: TypeAlias = Callable[[Context, Any], Awaitable[Any]]
Route: TypeAlias = tuple[str | None, Method[Any, Any] | Notification[Any], Handler]
"""The feature that offers a method if not every agent does, the method, and what handles it."""

CLOSE_GRACE = 1.0
"""Seconds for that."""


class AgentMethods(ABC):
    """Serves one agent core on one connection.

    Args:
        core: The agent.
        handlers: The table of the connection. Everything is registered at once, because a client may send its next
            requests without waiting for the answer to `initialize`; what the agent turns out not to offer is taken
            away again.
        gate: Leaves out what is unstable and not switched on.
    """

    schema: ClassVar[Any]
    """The package of this version's shapes. Those used here have the same fields in every version."""

    def __init__(self, core: AgentHandler, handlers: Handlers, gate: FeatureFilter) -> None:
        self._core = core
        self._gate = gate
        self._handlers = handlers
        self._features: AgentCapabilities | None = None
        self._tasks = TaskScope()
        """What goes on after its request was answered."""
        self._rows = [*self._own_rows(), *self._common_rows()]
        first: Method[Any, Any] = self.schema.INITIALIZE
        handlers.on(first)(self._with_meta(self._initialize))
        for feature, method, handler in self._rows:
            handlers.on(method)(self._if_advertised(feature, method, self._with_meta(handler)))

    @abstractmethod
    async def _initialize(self, context: Context, params: Any) -> Any:
        """The first exchange; it ends with `withdraw`."""

    @abstractmethod
    def _own_rows(self) -> list[Route]:
        """The methods that differ from those of other versions."""

    async def aclose(self) -> None:
        """The client is gone, and its sessions have ended: so has what went on for them here."""
        await self._tasks.cancel(CLOSE_GRACE)

    def _common_rows(self) -> list[Route]:
        schema = self.schema
        return [
            (None, schema.SESSION_CANCEL, self._cancel),
            ("delete", schema.SESSION_DELETE, self._delete),
            ("archive", schema.SESSION_ARCHIVE, self._archive),
            ("archive", schema.SESSION_UNARCHIVE, self._unarchive),
            ("status", schema.SESSION_STATUS, self._status),
            ("title", schema.SESSION_SET_TITLE, self._set_title),
            ("login_status", schema.AUTH_STATUS, self._login_status),
            ("mcp_acp", schema.MCP_MESSAGE_NOTIFICATION, self._mcp_message),
            ("providers", schema.PROVIDERS_LIST, self._list_providers),
            ("providers", schema.PROVIDERS_SET, self._set_provider),
            ("providers", schema.PROVIDERS_DISABLE, self._disable_provider),
        ]

    def _with_meta(self, handler: Handler) -> Handler:
        """Let the agent see what came with a request, before and while it is handled, and add to the answer."""

        async def handle(context: Context, params: Any) -> Any:
            attached = params.get("_meta") if isinstance(params, Other) else params.meta
            with request_context(context.method, attached, context.id) as request:
                self._core.requested(request)
                result = self._gate.strip(await handler(context, params))
                return with_meta(result, request.answer) if request.answer and result is not None else result

        return handle

    def unregister(self, features: AgentCapabilities | None = None) -> None:
        """Take away what this agent does not offer; without features, everything."""
        self._features = features
        for feature, method, _ in self._rows:
            if features is None or not self._is_offered(feature, method):
                self._handlers.off(method)

    def _is_offered(self, feature: str | None, method: Method[Any, Any] | Notification[Any]) -> bool:
        return self._gate.serves(method) and (feature is None or bool(getattr(self._features, feature, False)))

    def _if_advertised(
        self, feature: str | None, method: Method[Any, Any] | Notification[Any], handler: Handler
    ) -> Handler:
        """For requests that came before it was known what this agent offers."""
        if feature is None:
            return handler

        async def handle(context: Context, params: Any) -> Any:
            if not self._is_offered(feature, method):
                raise MethodNotFound(f"no such method: {method.name}", data={"method": method.name})
            return await handler(context, params)

        return handle

    # --- sessions

    async def _cancel(self, context: Context, params: Any) -> None:
        self._core.cancel(params.session_id)

    async def _delete(self, context: Context, params: Any) -> Any:
        await self._core.delete_session(params.session_id)
        return self.schema.DeleteSessionResponse()

    async def _archive(self, context: Context, params: Any) -> Any:
        await self._core.archive_session(params.session_id, True)
        return self.schema.ArchiveSessionResponse()

    async def _unarchive(self, context: Context, params: Any) -> Any:
        await self._core.archive_session(params.session_id, False)
        return self.schema.UnarchiveSessionResponse()

    async def _status(self, context: Context, params: Any) -> Any:
        return self.schema.SessionStatusResponse(status=await self._core.session_status(params.session_id))

    async def _set_title(self, context: Context, params: Any) -> Any:
        title = await self._core.set_title(params.session_id, params.title)
        return self.schema.SetSessionTitleResponse(title=title)

    # --- login, providers and MCP

    async def _login_status(self, context: Context, params: Any) -> Any:
        status = await self._core.login_status()
        accounts = accounts_to_wire(self.schema, status)
        return self.schema.AuthStatusResponse(state=status.state, accounts=accounts, meta=status.meta)

    async def _list_providers(self, context: Context, params: Any) -> Any:
        schema = self.schema
        providers = [
            schema.ProviderInfo(
                provider_id=provider.provider_id,
                supported=provider.supported,
                required=provider.required,
                current=(
                    None
                    if provider.api_type is None
                    else schema.ProviderCurrentConfig(api_type=provider.api_type, base_url=provider.base_url or "")
                ),
                meta=provider.meta,
            )
            for provider in await self._core.list_providers()
        ]
        return schema.ListProvidersResponse(providers=providers)

    async def _set_provider(self, context: Context, params: Any) -> Any:
        await self._core.set_provider(params.provider_id, params.api_type, params.base_url, params.headers)
        return self.schema.SetProviderResponse()

    async def _disable_provider(self, context: Context, params: Any) -> Any:
        await self._core.disable_provider(params.provider_id)
        return self.schema.DisableProviderResponse()

    async def _mcp_message(self, context: Context, params: Any) -> None:
        self._core.mcp_message(params.server_id, params.request_id, params.method, params.params)
