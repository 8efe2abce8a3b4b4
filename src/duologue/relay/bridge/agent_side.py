"""Requests of the client, passed on to the agent behind the bridge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from msgspec import structs

from duologue.conversation.content import AudioContent, Content, ImageContent, JsonObject, Resource
from duologue.conversation.session_setup import Implementation, SessionInfo, SessionParams
from duologue.conversation.settings import ConfigOption
from duologue.conversation.updates import Update
from duologue.conversation.work_state import STOP_REASONS
from duologue.errors import ConnectionLost, InvalidParams, MethodNotFound, RequestError, ResourceNotFound
from duologue.protocol.meta import RequestMeta
from duologue.protocol.shared.agent_proxy import AgentProxy
from duologue.protocol.shared.client_proxy import ClientProxy
from duologue.protocol.steering import STANDARD, Spelling, SteerAnswer
from duologue.protocol.values import (
    AuthStatus,
    ClientCapabilities,
    InitializeResult,
    PromptResult,
    Provider,
    SessionOpened,
)
from duologue.relay.bridge.client_side import BridgeClientHandler
from duologue.relay.bridge.session import BridgedSession
from duologue.relay.bridge.state import BridgeState


class BridgeAgentHandler:
    """Handle the client's requests by passing them on to the agent."""

    def __init__(self, state: BridgeState) -> None:
        self._state = state
        self._steering: Spelling | None = None
        self.offers_models = True

    @property
    def _agent(self) -> AgentProxy:
        return self._state.proxy

    def requested(self, request: RequestMeta) -> None:
        """Do nothing: `_meta` is passed on with each request."""

    # --- initialize and authentication

    async def initialize(
        self, info: Implementation | None, capabilities: ClientCapabilities, client: ClientProxy
    ) -> InitializeResult:
        state = self._state
        result = await state.connect(BridgeClientHandler(state), info, capabilities, client)
        if state.agent_version > 1 and not result.capabilities.mcp_stdio:
            await state.losses.report("mcp")
        self._steering = result.steering
        # A spelling that needs more than the text passes through unchanged, like any custom method.
        is_converted = result.steering is not None and not result.steering.run_id
        return structs.replace(result, capabilities=structs.replace(result.capabilities, steering=is_converted))

    async def authenticate(self, method_id: str, meta: JsonObject | None) -> None:
        await self._state.ask(self._agent.authenticate(method_id))

    async def logout(self) -> None:
        if not self._state.features.logout:
            await self._state.losses.report("logout")
            raise MethodNotFound("this agent cannot log out")
        await self._state.ask(self._agent.logout())

    async def auth_status(self) -> AuthStatus:
        return await self._state.ask(self._agent.auth_status())

    # --- opening sessions

    async def new_session(self, setup: SessionParams) -> SessionOpened:
        return await self._made(setup, lambda arrived, late: self._agent.new_session(setup, arrived, late))

    async def fork_session(self, session_id: str, setup: SessionParams) -> SessionOpened:
        return await self._made(setup, lambda arrived, late: self._agent.fork_session(session_id, setup, arrived, late))

    async def _made(
        self,
        setup: SessionParams,
        ask: Callable[
            [Callable[[SessionOpened], None], Callable[[SessionOpened], object]], Coroutine[Any, Any, SessionOpened]
        ],
    ) -> SessionOpened:
        state = self._state
        results: list[SessionOpened] = []

        def arrived(opened: SessionOpened) -> None:
            results.append(state.opening(opened.session_id, setup).settings.opened(opened))

        def late(opened: SessionOpened) -> None:
            state.tasks.start(state.close_unwanted(opened.session_id))

        await state.ask(ask(arrived, late))
        return results[0]

    async def open_session(self, session_id: str, setup: SessionParams, *, replay: bool) -> SessionOpened:
        state, features = self._state, self._state.features
        if not features.load and not features.resume:
            raise MethodNotFound("this agent can neither load nor resume sessions")
        before = state.sessions.get(session_id)
        session = state.opening(session_id, setup)
        try:
            opened = await state.ask(self._opened(session, setup, replay))
        except BaseException:
            state.sessions.pop(session_id, None)
            if before is not None:
                state.sessions[session_id] = before
            raise
        finally:
            session.is_silent = False
        if before is not None:
            before.turns.abandon()
        if replay and not features.load:
            await state.losses.report("replay", state.client, session_id)
        return session.settings.opened(opened)

    async def _opened(self, session: BridgedSession, setup: SessionParams, replay: bool) -> SessionOpened:
        """Load or resume a session; if the agent can only load and the client wants no replay, drop the replay."""
        features = self._state.features
        if features.load if replay else not features.resume:
            session.is_silent = not replay
            return await self._agent.load_session(session.id, setup)
        return await self._agent.resume_session(session.id, setup)

    async def session_announced(self, session_id: str) -> None:
        """Do nothing: updates of a session that is being opened are deferred by the connection."""

    # --- sessions

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str
    ) -> tuple[list[SessionInfo], str | None]:
        state = self._state
        if state.features.list:
            which = None if archived == "exclude" else archived
            return await state.ask(self._agent.list_sessions(cwd, cursor, which))
        await state.losses.report("list")
        known = [session.info for session in state.sessions.values()]
        return [info for info in known if info is not None and cwd in (None, info.cwd)], None

    async def close_session(self, session_id: str) -> None:
        state = self._state
        try:
            if state.features.close:
                await self._state.ask(self._agent.close_session(session_id))
            elif session_id in state.sessions:
                state.sessions[session_id].cancel()
                state.closed.add(session_id)
                await state.losses.report("close", state.client, session_id)
        finally:
            state.forget(session_id)

    async def delete_session(self, session_id: str) -> None:
        await self._state.ask(self._agent.delete_session(session_id))
        self._state.forget(session_id)

    async def archive_session(self, session_id: str, is_archived: bool) -> None:
        await self._state.ask(self._agent.archive_session(session_id, is_archived))

    async def session_status(self, session_id: str) -> str:
        return await self._state.ask(self._agent.session_status(session_id))

    async def set_title(self, session_id: str, title: str) -> str:
        return await self._state.ask(self._agent.set_title(session_id, title))

    # --- the turn

    async def prompt(
        self,
        session_id: str,
        prompt: list[Content],
        meta: JsonObject | None,
        inserted: Callable[[str], Awaitable[None]] | None = None,
    ) -> PromptResult:
        session = self._state.session(session_id)
        if inserted is not None:
            self._check(session, prompt)  # after its insertion it can no longer be rejected

        async def send() -> PromptResult:
            result = await self._state.ask(self._agent.prompt(session_id, prompt, meta))
            await session.catch_up()
            if self._state.client.capabilities.shows_terminals or result.stop_reason in STOP_REASONS:
                return result
            await self._state.losses.report("stop reason", self._state.client, session_id)
            return PromptResult(stop_reason="end_turn", usage=result.usage, meta=result.meta)

        session.prompts.append(prompt)
        try:
            return await session.turns.run(send, inserted)
        finally:
            session.prompts.remove(prompt)

    def _check(self, session: BridgedSession, prompt: list[Content]) -> None:
        features = self._state.features
        if session.setup is None:
            raise ResourceNotFound("no such session here", data={"sessionId": session.id})
        for index, block in enumerate(prompt):
            is_unsupported = (
                (isinstance(block, ImageContent) and not features.image)
                or (isinstance(block, AudioContent) and not features.audio)
                or (isinstance(block, Resource) and not features.embedded)
            )
            if is_unsupported:
                raise InvalidParams(f"$.prompt[{index}]: this agent does not support such content")

    async def steer(self, session_id: str, prompt: list[Content], meta: JsonObject | None) -> SteerAnswer:
        return await self._state.ask(self._agent.steer(session_id, prompt, meta, self._steering or STANDARD))

    async def stop_task(self, session_id: str, task_id: str) -> bool:
        return await self._state.ask(self._agent.stop_task(session_id, task_id))

    def cancel(self, session_id: str) -> None:
        self._state.session(session_id).cancel()

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None:
        await self._state.ask(self._agent.cancel_tool_call(session_id, tool_call_id))

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._state.ask(self._agent.cancel_terminal(session_id, terminal_id))

    # --- settings

    async def set_mode(self, session_id: str, mode_id: str) -> None:
        await self._choose(session_id, "mode", mode_id)

    async def set_model(self, session_id: str, model_id: str) -> None:
        await self._choose(session_id, "model", model_id)

    async def _choose(self, session_id: str, category: str, value: str) -> None:
        settings = self._state.session(session_id).settings
        await self._send_updates(session_id, await self._state.ask(settings.choose(self._agent, category, value)))

    async def set_setting(self, session_id: str, setting_id: str, value: str | bool) -> list[ConfigOption]:
        settings = self._state.session(session_id).settings
        await self._send_updates(session_id, await self._state.ask(settings.set(self._agent, setting_id, value)))
        return settings.current

    async def _send_updates(self, session_id: str, updates: list[Update]) -> None:
        for update in updates:
            await self._state.client.update(session_id, update)

    # --- providers and MCP

    async def list_providers(self) -> list[Provider]:
        return await self._state.ask(self._agent.list_providers())

    async def set_provider(self, provider_id: str, api_type: str, base_url: str, headers: dict[str, str]) -> None:
        await self._state.ask(self._agent.set_provider(provider_id, api_type, base_url, headers))

    async def disable_provider(self, provider_id: str) -> None:
        await self._state.ask(self._agent.disable_provider(provider_id))

    def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None:
        async def notify() -> None:
            with suppress(ConnectionLost, RequestError):
                await self._state.ask(self._agent.mcp_notify(server_id, request_id, method, params))

        self._state.tasks.start(notify())
