"""The agent's side of one connection: whether its client is authenticated, and its open sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from duologue.agent.auth import AuthState
from duologue.agent.diagnostics.checks import stop_reason_of
from duologue.agent.session import Session
from duologue.agent.session_opener import SessionOpener, normal_path, uses_mcp
from duologue.agent.turn import Turn
from duologue.agent.validation import check_absolute, check_archived, check_prompt, check_setup
from duologue.conversation.content import Content, JsonObject, TextContent
from duologue.conversation.session_setup import Implementation, SessionInfo, SessionParams
from duologue.conversation.settings import ConfigOption
from duologue.errors import InternalError, InvalidParams, MethodNotFound, ResourceNotFound, StoreError
from duologue.protocol.meta import RequestMeta
from duologue.protocol.shared.client_proxy import ClientProxy
from duologue.protocol.steering import NO_RUNNING_TURN, SteerAnswer
from duologue.protocol.values import (
    AgentCapabilities,
    AuthStatus,
    ClientCapabilities,
    InitializeResult,
    PromptResult,
    Provider,
    SessionOpened,
)

if TYPE_CHECKING:
    from duologue.agent.agent import Agent
    from duologue.agent.providers import Providers
    from duologue.store.base import Store

MAX_TITLE = 200
"""Characters of a title that the user sets: more does not fit in a list."""

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


def _reports_store_errors(method: F) -> F:
    """Wrap a method so that the client receives the text of a store error: only its user can free disk space."""

    @wraps(method)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except StoreError as error:
            raise InternalError(f"the session store failed: {error}") from error

    return cast("F", wrapper)


class ClientConnection:
    """Handles the requests of one client for the agent; implements `AgentHandler`."""

    def __init__(self, agent: Agent[Any]) -> None:
        self._agent = agent
        self._auth = AuthState(agent)
        self._sessions: dict[str, Session[Any]] = {}
        self._opener: SessionOpener | None = None

    async def aclose(self) -> None:
        """Close the sessions of a client that has disconnected."""
        if self._opener is not None:
            self._opener.is_closed = True
        async with asyncio.TaskGroup() as group:
            for session_id in list(self._sessions):
                group.create_task(self._end(session_id))

    def _sessions_opener(self) -> SessionOpener:
        assert self._opener is not None, "the dispatcher accepts initialize first"
        return self._opener

    def requested(self, request: RequestMeta) -> None:
        for hook in self._agent._request_hooks:
            hook(request)

    # --- initialize and authentication

    async def initialize(
        self, info: Implementation | None, capabilities: ClientCapabilities, client: ClientProxy
    ) -> InitializeResult:
        self._auth.client = client
        self._opener = SessionOpener(self._agent, client, self._sessions)
        methods = [method for method, _ in self._agent._auth_methods.values()]
        return InitializeResult(info=self._agent.info, capabilities=self._capabilities(), auth_methods=methods)

    def _capabilities(self) -> AgentCapabilities:
        agent = self._agent
        has_store, has_mcp = agent.store is not None, uses_mcp(agent)
        meta = dict(agent._meta)
        if agent._extensions:
            meta["duologue"] = {"extensions": [extension.name for extension in agent._extensions]}
        return AgentCapabilities(
            load=has_store,
            resume=has_store,
            list=has_store,
            delete=has_store,
            fork=has_store,
            archive=has_store,
            status=has_store,
            title=has_store,
            close=True,
            additional_directories=True,
            system_prompt=agent._system_prompt is not None,
            system_prompt_override=agent._system_prompt == "override",
            image="image" in agent._accepts,
            audio="audio" in agent._accepts,
            embedded="resource" in agent._accepts,
            mcp_stdio=has_mcp,
            mcp_http=has_mcp,
            mcp_sse=has_mcp,
            mcp_acp=has_mcp,
            logout=agent._logout_handler is not None,
            login_status=agent._status_handler is not None,
            providers=agent._providers is not None,
            steering=agent._steering,
            background_tasks=True,
            meta=meta or None,
        )

    async def authenticate(self, method_id: str, meta: JsonObject | None) -> None:
        await self._auth.authenticate(method_id, _credentials(meta))

    async def logout(self) -> None:
        await self._auth.logout()

    async def auth_status(self) -> AuthStatus:
        return await self._auth.status()

    # --- sessions

    @_reports_store_errors
    async def new_session(self, setup: SessionParams) -> SessionOpened:
        await self._auth.check()
        check_setup(setup, self._agent)
        return await self._sessions_opener().new(setup)

    @_reports_store_errors
    async def open_session(self, session_id: str, setup: SessionParams, *, replay: bool) -> SessionOpened:
        await self._auth.check()
        check_setup(setup, self._agent)
        session = self._sessions.get(session_id)
        if session is not None and session._announced.is_set():
            await self._end(session_id)
        return await self._sessions_opener().reopen(session_id, setup, self._store(), replay=replay)

    @_reports_store_errors
    async def fork_session(self, session_id: str, setup: SessionParams) -> SessionOpened:
        await self._auth.check()
        check_setup(setup, self._agent)
        return await self._sessions_opener().fork(session_id, setup, self._store())

    async def session_announced(self, session_id: str) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            await session._mark_announced()

    def _store(self) -> Store:
        if self._agent.store is None:
            raise MethodNotFound("this agent does not store sessions")
        return self._agent.store

    def _session(self, session_id: str) -> Session[Any]:
        session = self._sessions.get(session_id)
        if session is None:
            raise ResourceNotFound("no such session", data={"sessionId": session_id})
        return session

    @_reports_store_errors
    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str
    ) -> tuple[list[SessionInfo], str | None]:
        await self._auth.check()
        if cwd is not None:
            check_absolute("cwd", cwd)
        directory = None if cwd is None else normal_path(cwd)
        page = await self._store().list(cwd=directory, cursor=cursor, archived=check_archived(archived))
        return page.sessions, page.next_cursor

    async def close_session(self, session_id: str) -> None:
        self._session(session_id)
        await self._end(session_id)

    @_reports_store_errors
    async def delete_session(self, session_id: str) -> None:
        await self._auth.check()
        await self._end(session_id)
        await self._sessions_opener().delete(session_id, self._store())

    @_reports_store_errors
    async def archive_session(self, session_id: str, is_archived: bool) -> None:
        await self._auth.check()
        if is_archived:
            await self._end(session_id)
            self._sessions_opener().ensure_not_open(session_id)
        await self._store().update_info(session_id, archived=is_archived)

    @_reports_store_errors
    async def session_status(self, session_id: str) -> str:
        await self._auth.check()
        if session_id in self._agent._open_sessions:
            return "open"
        await self._store().info(session_id)
        return "saved"

    @_reports_store_errors
    async def set_title(self, session_id: str, title: str) -> str:
        await self._auth.check()
        title = " ".join(title.split())[:MAX_TITLE].rstrip()
        if not title:
            raise InvalidParams("$.title: is empty")
        await self._store().update_info(session_id, title=title)
        session = self._agent._open_sessions.get(session_id)
        if session is not None:
            await session._set_user_title(title)
        return title

    async def _end(self, session_id: str) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            await session._aclose()

    # --- the turn

    async def prompt(
        self,
        session_id: str,
        prompt: list[Content],
        meta: JsonObject | None,
        inserted: Callable[[str], Awaitable[None]] | None = None,
    ) -> PromptResult:
        # Nothing is awaited before the prompt is queued: a cancellation that follows it must find it there.
        session = self._session(session_id)
        check_prompt(prompt, self._agent)
        turn: Turn[Any] = Turn(session, prompt, meta)
        handler, arguments = self._handler_for(prompt)

        async def handle(turn: Turn[Any]) -> str:
            await session._announced.wait()
            await self._auth.check()
            if inserted is not None:
                await inserted(turn.message_id)
            await session._begin_turn(turn)
            try:
                return stop_reason_of(await handler(turn, *arguments), handler)
            finally:
                session._persistence.turn_usage = turn.tokens
                if turn._compactions is not None:
                    await turn._compactions.end(turn.send_final_update)

        reason = await session._prompts.run(turn, handle)
        if turn.tokens is None:
            return PromptResult(stop_reason=reason)
        from duologue.usage.spellings import with_scope

        return PromptResult(stop_reason=reason, usage=with_scope(turn.tokens))

    @_reports_store_errors
    async def steer(self, session_id: str, prompt: list[Content], meta: JsonObject | None) -> SteerAnswer:
        session = self._session(session_id)
        check_prompt(prompt, self._agent)
        turn = session._prompts.steerable_turn
        if turn is None:
            return SteerAnswer("prompt_required", NO_RUNNING_TURN)
        from duologue.agent.turns.steering import SteeringMessage

        message = SteeringMessage(content=prompt, message_id=session.new_id("msg"), meta=meta)
        queue, handler = turn._steering_queue(), self._agent._steer_handler
        if handler is None:
            return await queue.put(message)
        return await queue.call(handler, message, self._agent._cancel_timeout)

    def _handler_for(self, prompt: list[Content]) -> tuple[Callable[..., Awaitable[Any]], tuple[str, ...]]:
        """Return the handler of a prompt, of slash commands their own, and what it gets in addition to the turn."""
        first = next((block.text for block in prompt if isinstance(block, TextContent)), "")
        name, *rest = first.split(None, 1) or [""]
        found = self._agent._commands.get(name[1:]) if name.startswith("/") else None
        if found is not None:
            _, handler = found
            return handler, (rest[0].strip() if rest else "",)
        if self._agent._prompt_handler is None:
            raise MethodNotFound("this agent has no prompt handler; register one with `@agent.on_prompt`")
        return self._agent._prompt_handler, ()

    async def stop_task(self, session_id: str, task_id: str) -> bool:
        task = self._session(session_id)._background_tasks.get(task_id)
        return task is not None and await task.stop()

    def cancel(self, session_id: str) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            session._prompts.cancel()

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None:
        await self._cancel_part(session_id, "toolCallId", tool_call_id)

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._cancel_part(session_id, "terminalId", terminal_id)

    async def _cancel_part(self, session_id: str, field: str, part_id: str) -> None:
        cancel = self._session(session_id)._cancellable.get(part_id)
        if cancel is None:
            raise InvalidParams(f"$.{field}: no cancellable tool call or terminal with this id is running")
        await cancel()

    # --- settings

    async def set_mode(self, session_id: str, mode_id: str) -> None:
        await self._set_category(session_id, "mode", mode_id)

    @property
    def offers_models(self) -> bool:
        return self._agent._legacy_models

    async def set_model(self, session_id: str, model_id: str) -> None:
        await self._set_category(session_id, "model", model_id)

    async def _set_category(self, session_id: str, category: str, value: str) -> None:
        session = self._session(session_id)
        setting = next((each for each in session.settings.describe() if each.category == category), None)
        if setting is None:
            raise InvalidParams(f"this agent has no {category}s")
        if session.settings.change(setting.setting_id, value):
            await session._send_settings([setting.setting_id])
        elif category == "mode":  # clients wait for this even if the mode stays the same
            await session._send_mode(value)

    async def set_setting(self, session_id: str, setting_id: str, value: str | bool) -> list[ConfigOption]:
        session = self._session(session_id)
        if session.settings.change(setting_id, value):
            session.save()
            described = next(each for each in session.settings.describe() if each.setting_id == setting_id)
            if described.category == "mode":
                await session._send_mode(str(value))
        settings: list[ConfigOption] = session.settings.describe()
        return settings

    # --- providers and MCP

    async def list_providers(self) -> list[Provider]:
        return list(self._providers.known.values())

    async def set_provider(self, provider_id: str, api_type: str, base_url: str, headers: dict[str, str]) -> None:
        self._providers.set(provider_id, api_type, base_url, headers)

    async def disable_provider(self, provider_id: str) -> None:
        self._providers.disable(provider_id)

    @property
    def _providers(self) -> Providers:
        if self._agent._providers is None:
            raise MethodNotFound("this agent does not let clients choose its providers")
        return self._agent._providers

    def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None:
        for session in self._agent._open_sessions.values():
            if session._client is self._auth.client:
                session._on_mcp_message(server_id, request_id, method, params)


def _credentials(meta: JsonObject | None) -> JsonObject:
    """Return the credentials that clients of the dialect `seed-004` send; today's request carries them in `_meta`."""
    fields: object = (meta or {}).get("seed-004")
    credentials: object = cast("JsonObject", fields).get("credentials") if isinstance(fields, dict) else None
    return cast("JsonObject", credentials) if isinstance(credentials, dict) else {}
