"""The client as an agent reaches it, apart from what differs between versions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec
from msgspec import structs

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.fields import convert_fields
from duologue.conversation.session_setup import Implementation
from duologue.conversation.updates import Role, ToolCallUpdate, Update
from duologue.conversation.work_state import BackgroundWork
from duologue.errors import MethodNotFound
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.meta import current_attachment, with_attachment
from duologue.protocol.values import (
    AuthStatus,
    ClientCapabilities,
    Elicitation,
    ElicitationAnswer,
    PermissionOption,
)
from duologue.runtime.connection import Connection
from duologue.runtime.text_template import TextTemplate
from duologue.schema.base import Method, Notification
from duologue.schema.codec import decode

if TYPE_CHECKING:
    from duologue.protocol.client_requests import ClientRequest

P = TypeVar("P")
R = TypeVar("R")


class ClientProxy(ABC):
    """The client as the agent sees it. A call fails with a `RequestError` if the client answers with an error.

    What the client did not advertise, and unstable features that are not switched on, are never sent.
    """

    schema: ClassVar[Any]
    """The package of this version's shapes. Those used here have the same fields in every version."""

    def __init__(
        self,
        connection: Connection,
        info: Implementation | None,
        capabilities: ClientCapabilities,
        feature_filter: FeatureFilter,
    ) -> None:
        self._connection = connection
        self.info = info
        self.capabilities = capabilities
        self._filter = feature_filter

    @property
    def is_gone(self) -> bool:
        """True if the connection to the client is closed."""
        return self._connection.is_closed

    @property
    def carries_mcp(self) -> bool:
        """True if MCP over ACP is switched on, so that `mcp_message` may be called."""
        return self._filter.serves(self.schema.MCP_MESSAGE)

    async def _request(self, method: Method[P, R], params: P, on_late_result: Callable[[R], object] | None = None) -> R:
        self._filter.check(method, params)
        attached = current_attachment()
        if attached is None:
            return await self._connection.request(method, params, on_late_result=on_late_result)
        answer = await self._connection.request(
            method, with_attachment(params, attached), on_late_result=on_late_result
        )
        attached.received = getattr(answer, "meta", None)
        return answer

    def _notify(self, notification: Notification[P], params: P) -> Coroutine[Any, Any, None]:
        sent = self._filter.sendable(notification, params)
        if sent is None:
            return nothing()
        attached = current_attachment()
        return self._connection.notify(notification, sent if attached is None else with_attachment(sent, attached))

    # --- updates

    @abstractmethod
    def update(self, session_id: str, update: Update) -> Coroutine[Any, Any, None]:
        """Send an update; one that the client does not support (notices, compaction, …) is left out."""

    @abstractmethod
    def text_chunks(self, session_id: str, role: Role, message_id: str) -> TextTemplate:
        """Return a sender of the text chunks of one message, without `_meta`."""

    async def echo_user_message(  # noqa: B027 - version 1 has agents send nothing
        self, session_id: str, message_id: str, content: list[Content]
    ) -> None:
        """Send back a message of the user that joined a running turn, where the version has agents do so."""

    def replayed(self, updates: AsyncIterator[Update]) -> AsyncIterator[Update]:
        """Return the earlier updates of a session in the form in which this client expects them."""
        return updates

    @abstractmethod
    async def work_in_background(self, session_id: str, work: list[BackgroundWork]) -> None:
        """Send all background work of a session, where the protocol has a message for it."""

    # --- requests to the user

    @abstractmethod
    async def ask_permission(
        self, session_id: str, tool: ToolCallUpdate, options: list[PermissionOption], meta: JsonObject | None
    ) -> str | None:
        """Return the id of the option the user chose; None if the request was cancelled."""

    def _options_to_wire(self, options: list[PermissionOption]) -> list[Any]:
        return [convert_fields(option, self.schema.PermissionOption) for option in options]

    async def _request_permission(self, request: Any) -> str | None:
        """Return the id of the option the user chose; None if the request was cancelled."""
        answer: Any = await self._request(self.schema.SESSION_REQUEST_PERMISSION, request)
        is_chosen = isinstance(answer.outcome, self.schema.SelectedPermissionOutcome)
        return answer.outcome.option_id if is_chosen else None

    async def elicit(self, elicitation: Elicitation) -> ElicitationAnswer:
        schema = self.schema
        answer: Any = await self._request(schema.ELICITATION_CREATE, self._elicitation_to_wire(elicitation))
        if isinstance(answer, schema.ElicitationAcceptAction):
            return ElicitationAnswer(action="accept", content=answer.content or {}, meta=answer.meta)
        if isinstance(answer, schema.ElicitationDeclineAction):
            return ElicitationAnswer(action="decline", meta=answer.meta)
        if isinstance(answer, schema.ElicitationCancelAction):
            return ElicitationAnswer(action="cancel", meta=answer.meta)
        return ElicitationAnswer(action=answer.tag or "cancel")

    def _elicitation_to_wire(self, elicitation: Elicitation) -> Any:
        if elicitation.request_id is not None:  # it belongs to a request, and to no session
            elicitation = structs.replace(elicitation, session_id=None, tool_call_id=None)
        if elicitation.url is not None:
            target = self.schema.ElicitationUrlMode
            return convert_fields(elicitation, target, elicitation_id=elicitation.elicitation_id or "")
        form: JsonObject = {"type": "object", "properties": {}, **(elicitation.schema or {})}
        requested: Any = decode(self.schema.ElicitationSchema, msgspec.json.encode(form))
        return convert_fields(elicitation, self.schema.ElicitationFormMode, requested_schema=requested)

    async def complete_elicitation(self, elicitation_id: str) -> None:
        schema = self.schema
        notification = schema.CompleteElicitationNotification(elicitation_id=elicitation_id)
        await self._notify(schema.ELICITATION_COMPLETE, notification)

    # --- requests about files, terminals and so on

    async def ask(self, request: ClientRequest[R], on_late: Callable[[R], object] | None = None) -> R:
        """Send a request and return its result.

        `on_late` is called with the result if it arrives although the wait for it was cancelled.

        Raises:
            MethodNotFound: This version of the protocol does not have the request.
        """
        from duologue.protocol.client_requests import request_to_wire, result_from_wire

        kind = type(request)
        method: Method[Any, Any] | None = getattr(self.schema, kind.method, None)
        if method is None:
            raise MethodNotFound(f"this client has no {kind.capability}: this version of the protocol lacks them")

        def on_late_result(response: Any) -> None:
            if on_late is not None:
                on_late(result_from_wire(kind, response))

        response = await self._request(method, request_to_wire(self.schema, request), on_late and on_late_result)
        result: R = result_from_wire(kind, response)
        return result

    # --- authentication, MCP, extensions

    async def send_auth_status(self, status: AuthStatus) -> None:
        schema = self.schema
        message = auth_status_to_wire(schema, status, schema.AuthStatusUpdateNotification)
        await self._notify(schema.AUTH_STATUS_UPDATE, message)

    async def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> JsonObject:
        schema = self.schema
        request = schema.MessageMcpRequest(server_id=server_id, request_id=request_id, method=method, params=params)
        answer: Any = await self._request(schema.MCP_MESSAGE, request)
        builtins: JsonObject = msgspec.to_builtins(answer)
        return builtins

    async def call_extension(self, name: str, params: Any, result: Any) -> Any:
        """Call a custom method, whose name begins with an underscore; `result` is the type of its answer."""
        if not name.startswith("_"):
            raise MethodNotFound(f"the name of a custom method must begin with an underscore: {name}")
        method: Method[Any, Any] = Method(name, object, result, side="client")
        return await self._request(method, params)

    async def notify_extension(self, name: str, params: Any) -> None:
        if not name.startswith("_"):
            raise MethodNotFound(f"the name of a custom notification must begin with an underscore: {name}")
        notification: Notification[Any] = Notification(name, object)
        await self._notify(notification, params)


async def nothing() -> None:
    """Send nothing."""


def auth_status_to_wire(schema: Any, status: AuthStatus, kind: Any) -> Any:
    """Write an authentication status as this kind of message."""
    accounts = [convert_fields(account, schema.AuthAccount) for account in status.accounts]
    return convert_fields(status, kind, accounts=accounts)
