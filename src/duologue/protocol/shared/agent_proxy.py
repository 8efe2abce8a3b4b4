"""The agent as a client reaches it, apart from what differs between versions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Generic, TypedDict, TypeVar, Unpack, cast

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.fields import convert_fields
from duologue.conversation.session_setup import Implementation, SessionInfo, SessionParams
from duologue.conversation.settings import ConfigOption
from duologue.errors import MethodNotFound, RequestError
from duologue.protocol.background_tasks import STOP_TASK, StopTaskRequest
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.meta import OutgoingMeta, current_attachment, with_attachment
from duologue.protocol.shared.session_setup import session_info_from_wire, session_params_to_wire
from duologue.protocol.steering import STANDARD, Spelling, SteerAnswer, SteerRequest, answer_from_wire, request_for
from duologue.protocol.values import (
    Account,
    AuthStatus,
    ClientCapabilities,
    InitializeResult,
    PromptResult,
    Provider,
    SessionOpened,
)
from duologue.runtime.connection import Connection
from duologue.schema.base import Method, Notification

P = TypeVar("P")
R = TypeVar("R")


class Callbacks(TypedDict, Generic[R], total=False):
    """The callbacks of `Connection.request`."""

    on_result: Callable[[R], None]
    on_release: Callable[[R], None]
    on_late_result: Callable[[R], object]


class AgentProxy(ABC):
    """The agent as the client sees it. A call fails with a `RequestError` if the agent answers with an error.

    Attributes:
        version: The version of the protocol in use.
    """

    version: int
    schema: ClassVar[Any]
    """The package of this version's shapes. Those used here have the same fields in every version."""
    content: ClassVar[Any]
    """The module that converts content blocks."""
    settings: ClassVar[Any]
    """The module that converts config options."""
    new_method: ClassVar[Method[Any, Any]]
    fork_method: ClassVar[Method[Any, Any]]

    def __init__(self, connection: Connection, feature_filter: FeatureFilter) -> None:
        self._connection = connection
        self._filter = feature_filter

    def allows(self, feature: str) -> bool:
        """Return True if this feature is stable in this version or switched on; see `protocol.feature_filter`."""
        return self._filter.allows(feature)

    def _request(self, method: Method[P, R], params: P, **callbacks: Unpack[Callbacks[R]]) -> Coroutine[Any, Any, R]:
        self._filter.check(method, params)
        attached = current_attachment()
        if attached is None:
            return self._connection.request(method, params, **callbacks)
        return self._request_with(attached, method, params, callbacks)

    async def _request_with(
        self, attached: OutgoingMeta, method: Method[P, R], params: P, callbacks: Callbacks[R]
    ) -> R:
        answer = await self._connection.request(method, with_attachment(params, attached), **callbacks)
        is_dict = isinstance(answer, dict)
        attached.received = cast("JsonObject", answer).get("_meta") if is_dict else getattr(answer, "meta", None)
        return answer

    async def _notify(self, notification: Notification[P], params: P) -> None:
        sent = self._filter.sendable(notification, params)
        if sent is None:
            return
        attached = current_attachment()
        await self._connection.notify(notification, sent if attached is None else with_attachment(sent, attached))

    _ask = _request

    @abstractmethod
    async def initialize(self, info: Implementation, capabilities: ClientCapabilities) -> InitializeResult:
        """Initialize the connection with the client's implementation and capabilities.

        Raises:
            DowngradeRequired: The agent answered in an older version.
            ProtocolViolation: The agent answered in a version that is not supported here.
        """

    # --- authentication

    @abstractmethod
    async def authenticate(self, method_id: str) -> None: ...

    @abstractmethod
    async def logout(self) -> None: ...

    async def auth_status(self) -> AuthStatus:
        return auth_status_from_wire(await self._ask(self.schema.AUTH_STATUS, self.schema.AuthStatusRequest()))

    # --- sessions

    async def new_session(
        self,
        setup: SessionParams,
        on_opened: Callable[[SessionOpened], None],
        on_late: Callable[[SessionOpened], object],
    ) -> SessionOpened:
        """Open a session.

        Args:
            setup: What the session is opened with.
            on_opened: Called when the session's id is known, before any update of it is handled.
            on_late: Called with a session that was opened although the wait for it was cancelled.
        """
        request = self.schema.NewSessionRequest(**self._setup_fields(setup))
        return await self._open(self.new_method, request, on_opened, on_late)

    @abstractmethod
    async def load_session(self, session_id: str, setup: SessionParams) -> SessionOpened:
        """Open an earlier session; the agent sends all its updates again first."""

    @abstractmethod
    async def resume_session(self, session_id: str, setup: SessionParams) -> SessionOpened:
        """Open an earlier session without a replay of its updates."""

    async def fork_session(
        self,
        session_id: str,
        setup: SessionParams,
        on_opened: Callable[[SessionOpened], None],
        on_late: Callable[[SessionOpened], object],
    ) -> SessionOpened:
        request = self.schema.ForkSessionRequest(session_id=session_id, **self._setup_fields(setup))
        return await self._open(self.fork_method, request, on_opened, on_late)

    async def _open(
        self,
        method: Method[Any, Any],
        request: Any,
        on_opened: Callable[[SessionOpened], None],
        on_late: Callable[[SessionOpened], object],
    ) -> SessionOpened:
        read: list[SessionOpened] = []

        def on_result(answer: Any) -> None:
            opened = self._opened(answer)
            self._on_opened(opened)
            on_opened(opened)
            read.append(opened)

        await self._request(
            method, request, on_result=on_result, on_late_result=lambda found: on_late(self._opened(found))
        )
        return read[0]

    async def _reopen(self, method: Method[Any, Any], request: Any) -> SessionOpened:
        opened = self._opened(await self._ask(method, request), request.session_id)
        self._on_opened(opened)
        return opened

    def _setup_fields(self, setup: SessionParams) -> dict[str, Any]:
        return session_params_to_wire(self.schema, setup, self.content.blocks_to_wire)

    @abstractmethod
    def _opened(self, answer: Any, session_id: str = "") -> SessionOpened:
        """Read an answer that opens a session; the id is in `answer` unless the request named it."""

    def _on_opened(self, opened: SessionOpened) -> None:  # noqa: B027 - not every version has something to note
        """Note a session before any update of it is handled."""

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str | None
    ) -> tuple[list[SessionInfo], str | None]:
        request = self.schema.ListSessionsRequest(cwd=cwd, cursor=cursor, archived=archived)
        answer = await self._ask(self.schema.SESSION_LIST, request)
        return [session_info_from_wire(info) for info in answer.sessions], answer.next_cursor

    async def close_session(self, session_id: str) -> None:
        await self._ask(self.schema.SESSION_CLOSE, self.schema.CloseSessionRequest(session_id=session_id))

    async def delete_session(self, session_id: str) -> None:
        await self._ask(self.schema.SESSION_DELETE, self.schema.DeleteSessionRequest(session_id=session_id))

    async def archive_session(self, session_id: str, is_archived: bool) -> None:
        schema = self.schema
        if is_archived:
            await self._ask(schema.SESSION_ARCHIVE, schema.ArchiveSessionRequest(session_id=session_id))
        else:
            await self._ask(schema.SESSION_UNARCHIVE, schema.UnarchiveSessionRequest(session_id=session_id))

    async def session_status(self, session_id: str) -> str:
        request = self.schema.SessionStatusRequest(session_id=session_id)
        return str((await self._ask(self.schema.SESSION_STATUS, request)).status)

    async def set_title(self, session_id: str, title: str) -> str:
        request = self.schema.SetSessionTitleRequest(session_id=session_id, title=title)
        return str((await self._ask(self.schema.SESSION_SET_TITLE, request)).title)

    # --- settings

    async def set_setting(self, session_id: str, setting_id: str, value: str | bool) -> list[ConfigOption]:
        schema = self.schema
        kind = schema.SetSessionConfigOptionBoolean if isinstance(value, bool) else schema.SetSessionConfigOptionId
        request = kind(session_id=session_id, config_id=setting_id, value=value)
        answer = await self._ask(schema.SESSION_SET_CONFIG_OPTION, request)
        return [self.settings.config_option_from_wire(option) for option in answer.config_options]

    # --- the turn

    @abstractmethod
    async def prompt(self, session_id: str, prompt: list[Content], meta: JsonObject | None) -> PromptResult:
        """Send a prompt, and wait until the turn has ended and all its updates have been handled."""

    async def steer(
        self,
        session_id: str,
        prompt: list[Content],
        meta: JsonObject | None,
        spelling: Spelling = STANDARD,
        run_id: str | None = None,
        on_answer: Callable[[SteerAnswer], None] | None = None,
    ) -> SteerAnswer:
        """Send text into the running turn, and return what became of it.

        Args:
            session_id: The session.
            prompt: The text, as content blocks.
            meta: `_meta` of the request.
            spelling: The agent's spelling of the request.
            run_id: The id of the running turn, for a spelling that needs it.
            on_answer: Called with the answer in its order among the updates, also if the wait was cancelled.
        """
        request = request_for(spelling, session_id, self.content.blocks_to_wire(prompt), run_id, meta)
        method: Method[SteerRequest, JsonObject] = Method(spelling.method, SteerRequest, dict[str, Any], in_order=True)

        def note(answer: JsonObject) -> None:
            if on_answer is not None:
                on_answer(answer_from_wire(spelling, answer))

        try:
            answer = await self._request(method, request, on_release=note, on_late_result=note)
        except MethodNotFound as error:
            return SteerAnswer("not_supported", error.message)
        except RequestError as error:
            if error.code not in spelling.refusals:
                raise
            return SteerAnswer("prompt_required", error.message)
        return answer_from_wire(spelling, answer)

    async def stop_task(self, session_id: str, task_id: str) -> bool:
        """Stop a background task; return False if it was not running."""
        request = StopTaskRequest(session_id=session_id, async_task_id=task_id)
        method: Method[StopTaskRequest, JsonObject] = Method(STOP_TASK, StopTaskRequest, dict[str, Any], in_order=True)
        return (await self._request(method, request)).get("stopped") is True

    @abstractmethod
    async def cancel(self, session_id: str) -> None: ...

    # --- what only some versions have

    async def set_mode(self, session_id: str, mode_id: str) -> None:
        raise MethodNotFound(
            "this agent has no modes apart from its config options; set the config option of category `mode`"
        )

    async def set_model(self, session_id: str, model_id: str) -> None:
        raise MethodNotFound(
            "this agent has no models apart from its config options; set the config option of category `model`"
        )

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None:
        raise MethodNotFound("this agent cannot cancel a single tool call; cancel the turn")

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None:
        raise MethodNotFound("this agent cannot cancel a single terminal; cancel the turn")

    # --- providers, MCP, extensions

    async def list_providers(self) -> list[Provider]:
        answer = await self._ask(self.schema.PROVIDERS_LIST, self.schema.ListProvidersRequest())
        return [_provider_from_wire(provider) for provider in answer.providers]

    async def set_provider(self, provider_id: str, api_type: str, base_url: str, headers: dict[str, str]) -> None:
        request = self.schema.SetProviderRequest(
            provider_id=provider_id, api_type=api_type, base_url=base_url, headers=headers
        )
        await self._ask(self.schema.PROVIDERS_SET, request)

    async def disable_provider(self, provider_id: str) -> None:
        await self._ask(self.schema.PROVIDERS_DISABLE, self.schema.DisableProviderRequest(provider_id=provider_id))

    async def mcp_notify(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None:
        schema = self.schema
        message = schema.MessageMcpNotification(
            server_id=server_id, request_id=request_id, method=method, params=params
        )
        await self._notify(schema.MCP_MESSAGE_NOTIFICATION, message)

    async def call_extension(self, name: str, params: Any, result: Any) -> Any:
        if not name.startswith("_"):
            raise MethodNotFound(f"the name of a custom method must begin with an underscore: {name}")
        method: Method[Any, Any] = Method(name, object, result)
        return await self._ask(method, params)

    async def notify_extension(self, name: str, params: Any) -> None:
        if not name.startswith("_"):
            raise MethodNotFound(f"the name of a custom notification must begin with an underscore: {name}")
        notification: Notification[Any] = Notification(name, object, side="agent")
        await self._notify(notification, params)


def auth_status_from_wire(status: Any) -> AuthStatus:
    """Read an authentication status."""
    return convert_fields(status, AuthStatus, accounts=[convert_fields(each, Account) for each in status.accounts])


def _provider_from_wire(provider: Any) -> Provider:
    current = provider.current
    if current is None:
        return convert_fields(provider, Provider)
    return convert_fields(provider, Provider, api_type=current.api_type, base_url=current.base_url)
