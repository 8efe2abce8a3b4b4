"""The methods of a client, apart from those that differ between versions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from duologue.conversation.fields import convert_fields
from duologue.conversation.items import ToolCall
from duologue.conversation.updates import Role, ToolCallUpdate, Update
from duologue.errors import InvalidParams, RequestCancelled
from duologue.protocol.client_requests import KINDS, ClientRequest, request_from_wire, result_to_wire
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.meta import request_context, with_meta
from duologue.protocol.shared.agent_proxy import auth_status_from_wire
from duologue.protocol.values import ClientCapabilities, Elicitation, PermissionOption
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import Method, Notification, Other

if TYPE_CHECKING:
    from duologue.protocol.interfaces import ClientHandler


class ClientMethods(ABC):
    """Registers the methods that the client offers; every other method is answered with "no such method".

    Args:
        client: The client.
        capabilities: What the client offers.
        handlers: The handlers of the connection.
        feature_filter: Leaves out unstable features that are not switched on.
    """

    schema: ClassVar[Any]
    """The package of this version's shapes. Those used here have the same fields in every version."""
    text_roles: ClassVar[dict[type, Role]]
    """The roles of the agent's message chunks, by their class."""

    def __init__(
        self, client: ClientHandler, capabilities: ClientCapabilities, handlers: Handlers, feature_filter: FeatureFilter
    ) -> None:
        self._client = client
        self._capabilities = capabilities
        self._handlers = handlers
        schema = self.schema
        self._text_class = schema.TextContent
        self._on_notification(schema.SESSION_UPDATE, self._update)
        self._on_notification(schema.AUTH_STATUS_UPDATE, self._auth_status)
        self._on_notification(schema.ELICITATION_COMPLETE, self._elicitation_completed)
        if feature_filter.serves(schema.MCP_MESSAGE):
            self._on_request(schema.MCP_MESSAGE, self._mcp_message)
        if capabilities.forms or capabilities.urls:
            self._answer_in_order(schema.ELICITATION_CREATE, self._elicit, cancelled=schema.ElicitationCancelAction)
        self._answer_in_order(
            schema.SESSION_REQUEST_PERMISSION,
            self._ask_permission,
            at_position=self._note_permission_request,
            cancelled=lambda: self._outcome(None),
        )
        for kind in KINDS:
            if hasattr(schema, kind.method) and getattr(capabilities, kind.capability):
                register = self._answer_in_order if kind.in_order else self._on_request
                register(getattr(schema, kind.method), partial(self._answer, kind))

    async def _answer(self, kind: type[ClientRequest[Any]], context: Context, params: Any) -> Any:
        return result_to_wire(self.schema, kind, await self._client.answer(request_from_wire(kind, params)))

    def _on_request(self, method: Method[Any, Any], handler: Any) -> None:
        """Register a handler that sees the `_meta` of the request and can add to that of the answer."""

        async def handle(context: Context, params: Any) -> Any:
            meta = params.get("_meta") if isinstance(params, Other) else params.meta
            with request_context(context.method, meta) as request:
                result = await handler(context, params)
                return with_meta(result, request.answer) if request.answer else result

        self._handlers.on(method)(handle)

    def _answer_in_order(
        self,
        method: Method[Any, Any],
        handler: Any,
        *,
        at_position: Callable[[Context, Any], Any] | None = None,
        cancelled: Callable[[], Any] | None = None,
    ) -> None:
        """Answer a request once all updates that arrived before it in its session have been handled.

        Args:
            method: The request.
            handler: Answers it.
            at_position: Called between the updates that arrived before the request and those after it.
            cancelled: Returns the answer if the turn is cancelled first; without it the answer is an error.
        """

        async def handle(context: Context, params: Any) -> Any:
            try:
                # A session that is being opened has no earlier updates, and its opening may wait for this answer.
                if context.position is not None and not context.connection.internals.is_opening(params.session_id):
                    await context.position
            except RequestCancelled:
                if cancelled is None:
                    raise
                return cancelled()
            return await handler(context, params)

        self._handlers.positions[method.name] = at_position
        self._on_request(method, handle)

    def _note_permission_request(self, context: Context, params: Any) -> ToolCall | None:
        """Apply the tool call of a permission request in order, so that it is judged as it was at that point."""
        return self._client.note_permission_request(params.session_id, self._tool_of(context, params), context.raw)

    async def _ask_permission(self, context: Context, params: Any) -> Any:
        tool = self._tool_of(context, params)
        known = context.position.result() if context.position is not None and context.position.done() else None
        options = [convert_fields(option, PermissionOption) for option in params.options]
        return self._outcome(await self._client.ask_permission(params.session_id, tool, known, options, context.raw))

    @abstractmethod
    def _tool_of(self, context: Context, params: Any) -> ToolCallUpdate:
        """Return the tool call that a permission request is about."""

    def _on_notification(self, notification: Notification[Any], handler: Any) -> None:
        self._handlers.on(notification)(handler)

    def _update(self, context: Context, params: Any) -> Coroutine[Any, Any, None] | None:
        """Pass plain text to the client as it is; it is most of what an agent sends. Read every other update."""
        chunk = params.update
        role = self.text_roles.get(type(chunk))  # pyright: ignore[reportUnknownArgumentType]  # either version's
        if role is not None and chunk.meta is None and params.meta is None:
            block = chunk.content
            if type(block) is self._text_class and block.annotations is None and block.meta is None:
                return self._client.text(params.session_id, role, chunk.message_id, block.text, context.raw)
        return self._read_update(context, params)

    @abstractmethod
    async def _read_update(self, context: Context, params: Any) -> None:
        """Read an update and pass it on with `_on_update`."""

    async def _on_update(self, context: Context, params: Any, update: Update) -> None:
        """Pass an update to the client, with its `_meta` if it has one."""
        if params.meta is None:
            await self._client.update(params.session_id, update, context.raw)
        else:
            with request_context(context.method, params.meta):
                await self._client.update(params.session_id, update, context.raw)

    def _outcome(self, chosen: str | None) -> Any:
        schema = self.schema
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.CancelledPermissionOutcome())
        return schema.RequestPermissionResponse(outcome=schema.SelectedPermissionOutcome(option_id=chosen))

    async def _elicit(self, context: Context, params: Any) -> Any:
        answer = await self._client.elicit(self._elicitation_from_wire(params))
        match answer.action:
            case "accept":
                return self.schema.ElicitationAcceptAction(content=answer.content, meta=answer.meta)
            case "decline":
                return self.schema.ElicitationDeclineAction(meta=answer.meta)
            case _:
                return self.schema.ElicitationCancelAction(meta=answer.meta)

    def _elicitation_from_wire(self, params: Any) -> Elicitation:
        is_form = isinstance(params, self.schema.ElicitationFormMode) and self._capabilities.forms
        is_url = isinstance(params, self.schema.ElicitationUrlMode) and self._capabilities.urls
        if not is_form and not is_url:
            raise InvalidParams("$.mode: this client did not advertise this elicitation mode")
        form = msgspec.to_builtins(params.requested_schema) if is_form else None
        return convert_fields(params, Elicitation, schema=form)

    async def _elicitation_completed(self, context: Context, params: Any) -> None:
        await self._client.elicitation_completed(params.elicitation_id)

    async def _auth_status(self, context: Context, params: Any) -> None:
        await self._client.auth_status_changed(auth_status_from_wire(params))

    async def _mcp_message(self, context: Context, params: Any) -> Any:
        answer = await self._client.mcp_message(params.server_id, params.request_id, params.method, params.params)
        if "result" in answer:
            return self.schema.MessageMcpResult(result=answer["result"])
        return self.schema.MessageMcpError(error=answer.get("error"))
