"""What an editor asks of the agent on the other side of a bridge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from duologue.conversation.content import AudioContent, Content, ImageContent, JsonObject, Resource
from duologue.conversation.session_setup import Implementation, SessionInfo, SessionParams
from duologue.conversation.settings import ConfigOption
from duologue.conversation.updates import Update
from duologue.conversation.work_state import STOP_REASONS
from duologue.errors import ConnectionLost, InvalidParams, MethodNotFound, RequestError, ResourceNotFound
from duologue.protocol.interfaces import AgentProxy, ClientProxy
from duologue.protocol.meta import RequestMeta
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

__all__ = ["BridgeAgentHandler"]

"""What version 1 has words for."""


class BridgeAgentHandler:
    """The agent, as the dialect of the editor sees it: everything is passed on to the agent."""

    def __init__(self, between: BridgeState) -> None:
        self._between = between

    @property
    def _agent(self) -> AgentProxy:
        return self._between.proxy

    async def _ask(self, answer: Awaitable[Any]) -> Any:
        return await self._between.ask(answer)

    def requested(self, request: RequestMeta) -> None:
        """What came with it is passed on with what is asked."""

    # --- the first exchange and login

    async def initialize(
        self, client: Implementation | None, features: ClientCapabilities, editor: ClientProxy
    ) -> InitializeResult:
        between = self._between
        welcome = await between.dial(BridgeClientHandler(between), client, features, editor)
        if between.agent_version > 1 and not welcome.capabilities.mcp_stdio:
            await between.losses.tell("mcp")
        return welcome

    async def login(self, method_id: str, meta: JsonObject | None) -> None:
        await self._ask(self._agent.login(method_id))

    async def logout(self) -> None:
        if not self._between.features.logout:
            await self._between.losses.tell("logout")
            raise MethodNotFound("this agent cannot log out")
        await self._ask(self._agent.logout())

    async def login_status(self) -> AuthStatus:
        return await self._between.ask(self._agent.login_status())

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
        between = self._between
        shown: list[SessionOpened] = []

        def arrived(opened: SessionOpened) -> None:
            shown.append(between.opening(opened.session_id, setup).panel.opened(opened))

        def late(opened: SessionOpened) -> None:
            between.tasks.start(between.close_unwanted(opened.session_id))

        await between.ask(ask(arrived, late))
        return shown[0]

    async def open_session(self, session_id: str, setup: SessionParams, *, replay: bool) -> SessionOpened:
        between, features = self._between, self._between.features
        if not features.load and not features.resume:
            raise MethodNotFound("this agent opens no earlier sessions")
        before = between.sessions.get(session_id)
        session = between.opening(session_id, setup)
        try:
            opened = await between.ask(self._opened(session, setup, replay))
        except BaseException:
            between.sessions.pop(session_id, None)
            if before is not None:
                between.sessions[session_id] = before
            raise
        finally:
            session.is_silent = False
        if before is not None:
            before.turns.abandon()
        if replay and not features.load:
            await between.losses.tell("replay", between.editor, session_id)
        return session.panel.opened(opened)

    async def _opened(self, session: BridgedSession, setup: SessionParams, replay: bool) -> SessionOpened:
        """An agent that can only tell an earlier session again tells it to nobody, if the editor does not want that."""
        features = self._between.features
        if features.load if replay else not features.resume:
            session.is_silent = not replay
            return await self._agent.load_session(session.id, setup)
        return await self._agent.resume_session(session.id, setup)

    async def session_announced(self, session_id: str) -> None:
        """What is told of a session that is being opened waits by itself."""

    # --- sessions

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str
    ) -> tuple[list[SessionInfo], str | None]:
        between = self._between
        if between.features.list:
            which = None if archived == "exclude" else archived
            return await between.ask(self._agent.list_sessions(cwd, cursor, which))
        await between.losses.tell("list")
        known = [session.info for session in between.sessions.values()]
        return [info for info in known if info is not None and cwd in (None, info.cwd)], None

    async def close_session(self, session_id: str) -> None:
        between = self._between
        try:
            if between.features.close:
                await self._ask(self._agent.close_session(session_id))
            elif session_id in between.sessions:
                between.sessions[session_id].cancel()
                between.closed.add(session_id)
                await between.losses.tell("close", between.editor, session_id)
        finally:
            between.forget(session_id)

    async def delete_session(self, session_id: str) -> None:
        await self._ask(self._agent.delete_session(session_id))
        self._between.forget(session_id)

    async def archive_session(self, session_id: str, is_archived: bool) -> None:
        await self._ask(self._agent.archive_session(session_id, is_archived))

    async def session_status(self, session_id: str) -> str:
        return await self._between.ask(self._agent.session_status(session_id))

    async def set_title(self, session_id: str, title: str) -> str:
        return await self._between.ask(self._agent.set_title(session_id, title))

    # --- the turn

    async def prompt(
        self,
        session_id: str,
        prompt: list[Content],
        meta: JsonObject | None,
        inserted: Callable[[str], Awaitable[None]] | None = None,
    ) -> PromptResult:
        session = self._between.session(session_id)
        if inserted is not None:
            self._check(session, prompt)  # once it is inserted, it cannot be refused any more

        async def send() -> PromptResult:
            result = await self._between.ask(self._agent.prompt(session_id, prompt, meta))
            await session.catch_up()
            if self._between.editor.features.shows_terminals or result.stop_reason in STOP_REASONS:
                return result
            await self._between.losses.tell("stop reason", self._between.editor, session_id)
            return PromptResult(stop_reason="end_turn", usage=result.usage, meta=result.meta)

        session.prompts.append(prompt)
        try:
            return await session.turns.run(send, inserted)
        finally:
            session.prompts.remove(prompt)

    def _check(self, session: BridgedSession, prompt: list[Content]) -> None:
        features = self._between.features
        if session.setup is None:
            raise ResourceNotFound("no such session here", data={"sessionId": session.id})
        for place, block in enumerate(prompt):
            is_refused = (
                (isinstance(block, ImageContent) and not features.image)
                or (isinstance(block, AudioContent) and not features.audio)
                or (isinstance(block, Resource) and not features.embedded)
            )
            if is_refused:
                raise InvalidParams(f"$.prompt[{place}]: this agent does not take such content")

    def cancel(self, session_id: str) -> None:
        self._between.session(session_id).cancel()

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None:
        await self._ask(self._agent.cancel_tool_call(session_id, tool_call_id))

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._ask(self._agent.cancel_terminal(session_id, terminal_id))

    # --- settings

    async def set_mode(self, session_id: str, mode_id: str) -> None:
        await self._choose(session_id, "mode", mode_id)

    async def set_model(self, session_id: str, model_id: str) -> None:
        await self._choose(session_id, "model", model_id)

    async def _choose(self, session_id: str, category: str, value: str) -> None:
        panel = self._between.session(session_id).panel
        await self._tell(session_id, await self._between.ask(panel.choose(self._agent, category, value)))

    async def set_setting(self, session_id: str, setting_id: str, value: str | bool) -> list[ConfigOption]:
        panel = self._between.session(session_id).panel
        await self._tell(session_id, await self._between.ask(panel.set(self._agent, setting_id, value)))
        return panel.shown

    async def _tell(self, session_id: str, updates: list[Update]) -> None:
        for update in updates:
            await self._between.editor.update(session_id, update)

    # --- providers and MCP

    async def list_providers(self) -> list[Provider]:
        return await self._between.ask(self._agent.list_providers())

    async def set_provider(self, provider_id: str, api_type: str, base_url: str, headers: dict[str, str]) -> None:
        await self._ask(self._agent.set_provider(provider_id, api_type, base_url, headers))

    async def disable_provider(self, provider_id: str) -> None:
        await self._ask(self._agent.disable_provider(provider_id))

    def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None:
        async def tell() -> None:
            with suppress(ConnectionLost, RequestError):
                await self._between.ask(self._agent.mcp_notify(server_id, request_id, method, params))

        self._between.tasks.start(tell())
