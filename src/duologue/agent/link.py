"""One client of an agent: who it is, whether it is logged in, and the sessions it has open."""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from duologue.agent.checks import check_prompt, check_setup
from duologue.agent.session import STATE_NAME, Kept, Session, read_kept
from duologue.agent.turn import Turn
from duologue.conversation.content import Content, JsonObject, TextContent
from duologue.conversation.settings import Setting
from duologue.conversation.setup import Party, SessionInfo, SessionSetup
from duologue.conversation.updates import InfoChanged
from duologue.dialects.contract import Editor
from duologue.dialects.terms import AgentFeatures, ClientFeatures, LoginStatus, Opened, PromptResult, Provider, Welcome
from duologue.errors import (
    AuthenticationRequired,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ResourceNotFound,
    SessionInUse,
)

if TYPE_CHECKING:
    from duologue.agent.agent import Agent
    from duologue.store.base import Archived, SessionLog, Store

__all__ = ["Link"]


class Link:
    """What a dialect talks to; the agent's side of one connection."""

    def __init__(self, agent: Agent[Any]) -> None:
        self._agent = agent
        self._sessions: dict[str, Session[Any]] = {}
        self._is_logged_in = False
        self._editor: Editor | None = None

    async def aclose(self) -> None:
        """The client is gone: end its sessions."""
        for session_id in list(self._sessions):
            await self._end(session_id)

    # --- the first exchange and login

    async def initialize(self, client: Party | None, features: ClientFeatures, editor: Editor) -> Welcome:
        self._editor = editor
        methods = [method for method, _ in self._agent.login_methods.values()]
        return Welcome(info=self._agent.info, features=self._features(), login_methods=methods)

    def _features(self) -> AgentFeatures:
        agent = self._agent
        keeps = agent.store is not None
        extensions: JsonObject = {"duologue": {"extensions": agent.extension_names}} if agent.extension_names else {}
        return AgentFeatures(
            load=keeps,
            resume=keeps,
            list=keeps,
            delete=keeps,
            fork=keeps,
            archive=keeps,
            status=keeps,
            title=keeps,
            close=True,
            additional_directories=True,
            system_prompt=agent.system_prompt is not None,
            system_prompt_override=agent.system_prompt == "override",
            image="image" in agent.accepts,
            audio="audio" in agent.accepts,
            embedded="resource" in agent.accepts,
            mcp_http=agent.mcp,
            mcp_sse=agent.mcp,
            mcp_acp=agent.mcp,
            logout=agent.logout_handler is not None,
            login_status=agent.status_handler is not None,
            providers=agent.providers is not None,
            meta=extensions or None,
        )

    async def login(self, method_id: str, meta: JsonObject | None) -> None:
        method, handler = self._agent.login_methods.get(method_id, (None, None))
        if method is None or handler is None:
            known = ", ".join(self._agent.login_methods) or "none"
            raise InvalidParams(f"no such login method: {method_id!r} (there are: {known})")
        await handler()
        self._is_logged_in = True
        await self._tell_status()

    async def logout(self) -> None:
        if self._agent.logout_handler is not None:
            await self._agent.logout_handler()
        self._is_logged_in = False
        await self._tell_status()

    async def login_status(self) -> LoginStatus:
        if self._agent.status_handler is None:
            raise MethodNotFound("this agent does not tell who is logged in")
        status = await self._agent.status_handler()
        return LoginStatus(state=status) if isinstance(status, str) else status

    async def _tell_status(self) -> None:
        if self._agent.status_handler is not None and self._editor is not None:
            await self._editor.tell_login_status(await self.login_status())

    async def _check_login(self) -> None:
        if not self._agent.login_required or self._is_logged_in:
            return
        if self._agent.status_handler is not None:
            self._is_logged_in = (await self.login_status()).state in ("authenticated", "not_required")
        if not self._is_logged_in:
            names = ", ".join(method.name for method, _ in self._agent.login_methods.values()) or "none is offered"
            raise AuthenticationRequired(f"log in first ({names})")

    # --- sessions

    async def new_session(self, setup: SessionSetup) -> Opened:
        await self._check_login()
        check_setup(setup, self._agent)
        session_id = f"sess_{secrets.token_hex(16)}"
        log = None
        if self._agent.store is not None:
            log = await self._agent.store.create(_info_of(session_id, setup))
        return await self._open(await self._make(session_id, setup, log))

    async def open_session(self, session_id: str, setup: SessionSetup, *, replay: bool) -> Opened:
        await self._check_login()
        check_setup(setup, self._agent)
        store = self._agent.store
        if store is None:
            raise MethodNotFound("this agent does not keep sessions")
        if session_id in self._sessions:
            await self._end(session_id)
        session = await self._reopen(store, session_id, setup)
        try:
            if replay:
                async for update in store.replay(session_id):
                    await session.editor.update(session_id, update)
        except BaseException:
            await session.aclose()
            raise
        return await self._open(session)

    async def _reopen(self, store: Store, session_id: str, setup: SessionSetup) -> Session[Any]:
        try:
            log = await store.open(session_id)
        except SessionInUse:
            raise InvalidRequest("the session is in use", data={"sessionId": session_id}) from None
        return await self._make(session_id, setup, log)

    async def fork_session(self, session_id: str, setup: SessionSetup) -> Opened:
        await self._check_login()
        check_setup(setup, self._agent)
        store = self._agent.store
        if store is None:
            raise MethodNotFound("this agent does not keep sessions")
        if session_id in self._sessions:
            await self._sessions[session_id].commit()
        new_id = f"sess_{secrets.token_hex(16)}"
        await store.fork(session_id, _info_of(new_id, setup))
        return await self._open(await self._reopen(store, new_id, setup))

    async def _make(self, session_id: str, setup: SessionSetup, log: SessionLog | None) -> Session[Any]:
        assert self._editor is not None, "sessions come after initialize"
        kept = Kept() if log is None else read_kept(await log.load_state(STATE_NAME))
        settings = self._agent.settings_type(kept.settings)
        return Session(session_id, setup, settings, self._editor, log=log, state=kept.state)

    async def _open(self, session: Session[Any]) -> Opened:
        self._sessions[session.id] = session
        try:
            if self._agent.mcp:
                await session.start_mcp(self._agent.info)
            for hook in self._agent.open_hooks:
                await hook(session)
        except BaseException:
            await self._end(session.id)
            raise
        return Opened(
            session_id=session.id,
            settings=session.settings.describe(),
            modes=session.settings.modes(),
            models=session.settings.models(),
            commands=[command for command, _ in self._agent.commands.values()],
        )

    def _session(self, session_id: str) -> Session[Any]:
        session = self._sessions.get(session_id)
        if session is None:
            raise ResourceNotFound("no such session here", data={"sessionId": session_id})
        return session

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str
    ) -> tuple[list[SessionInfo], str | None]:
        await self._check_login()
        if self._agent.store is None:
            return [], None
        which: Archived = archived if archived in ("include", "only") else "exclude"  # type: ignore[assignment]
        page = await self._agent.store.list(cwd=cwd, cursor=cursor, archived=which)
        return page.sessions, page.next_cursor

    async def close_session(self, session_id: str) -> None:
        self._session(session_id)
        await self._end(session_id)

    async def delete_session(self, session_id: str) -> None:
        if session_id in self._sessions:
            await self._end(session_id)
        if self._agent.store is not None:
            try:
                await self._agent.store.delete(session_id)
            except SessionInUse:
                raise InvalidRequest("the session is in use", data={"sessionId": session_id}) from None

    async def archive_session(self, session_id: str, is_archived: bool) -> None:
        if self._agent.store is None:
            raise MethodNotFound("this agent does not keep sessions")
        if is_archived and session_id in self._sessions:
            self._sessions[session_id].prompts.cancel()
        await self._agent.store.update_info(session_id, archived=is_archived)

    async def session_status(self, session_id: str) -> str:
        if session_id in self._sessions:
            return "open"
        if self._agent.store is not None:
            await self._agent.store.info(session_id)
            return "saved"
        raise ResourceNotFound("no such session here", data={"sessionId": session_id})

    async def set_title(self, session_id: str, title: str) -> str:
        if self._agent.store is not None:
            await self._agent.store.update_info(session_id, title=title)
        if session_id in self._sessions:
            self._sessions[session_id].title = title
            await self._sessions[session_id].editor.update(session_id, InfoChanged(title=title))
        return title

    async def _end(self, session_id: str) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            await session.aclose()

    # --- the turn

    async def prompt(self, session_id: str, prompt: list[Content], meta: JsonObject | None) -> PromptResult:
        session = self._session(session_id)
        await self._check_login()
        check_prompt(prompt, self._agent)
        turn: Turn[Any] = Turn(session, prompt, meta)
        reason = await session.run(turn, self._handler_for(prompt))
        return PromptResult(stop_reason=reason, usage=turn.tokens)

    def _handler_for(self, prompt: list[Content]) -> Callable[[Turn[Any]], Awaitable[Any]]:
        """The command a prompt begins with, or what the agent does with prompts."""
        first = next((block.text for block in prompt if isinstance(block, TextContent)), "")
        if first.startswith("/"):
            name, _, argument = first[1:].partition(" ")
            found = self._agent.commands.get(name.strip())
            if found is not None:
                _, handler = found
                return lambda turn: handler(turn, argument.strip())
        if self._agent.prompt_handler is None:
            raise MethodNotFound("this agent has no prompt handler; register one with `@agent.on_prompt`")
        return self._agent.prompt_handler

    def cancel(self, session_id: str) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            session.prompts.cancel()

    # --- settings

    async def set_mode(self, session_id: str, mode_id: str) -> None:
        await self._set_category(session_id, "mode", mode_id)

    async def set_model(self, session_id: str, model_id: str) -> None:
        await self._set_category(session_id, "model", model_id)

    async def _set_category(self, session_id: str, category: str, value: str) -> None:
        session = self._session(session_id)
        setting = next((each for each in session.settings.describe() if each.category == category), None)
        if setting is None:
            raise InvalidParams(f"this session has no {category}s")
        if session.settings.change(setting.setting_id, value):
            await session.tell_settings([])

    async def set_setting(self, session_id: str, setting_id: str, value: str | bool) -> list[Setting]:
        session = self._session(session_id)
        if session.settings.change(setting_id, value):
            described = next(each for each in session.settings.describe() if each.setting_id == setting_id)
            if described.category == "mode":
                await session.tell_mode(str(value))
        settings: list[Setting] = session.settings.describe()
        return settings

    # --- providers and MCP

    async def list_providers(self) -> list[Provider]:
        return list(self._providers().values())

    async def set_provider(self, provider_id: str, api_type: str, base_url: str, headers: dict[str, str]) -> None:
        known = self._providers()
        provider = known.get(provider_id)
        if provider is None:
            raise InvalidParams(f"no such provider: {provider_id!r} (there are: {', '.join(known) or 'none'})")
        if api_type not in provider.supported:
            raise InvalidParams(
                f"{provider_id!r} does not speak {api_type!r} (it does: {', '.join(provider.supported)})"
            )
        known[provider_id] = Provider(
            provider_id=provider_id,
            supported=provider.supported,
            required=provider.required,
            api_type=api_type,
            base_url=base_url,
            meta=provider.meta,
        )
        assert self._agent.providers is not None
        self._agent.providers.headers[provider_id] = dict(headers)

    async def disable_provider(self, provider_id: str) -> None:
        known = self._providers()
        provider = known.get(provider_id)
        if provider is None:
            return
        if provider.required:
            raise InvalidParams(f"{provider_id!r} is required and cannot be disabled")
        known[provider_id] = Provider(provider_id=provider_id, supported=provider.supported, meta=provider.meta)
        assert self._agent.providers is not None
        self._agent.providers.headers.pop(provider_id, None)

    def _providers(self) -> dict[str, Provider]:
        if self._agent.providers is None:
            raise MethodNotFound("this agent lets nobody choose its providers")
        return self._agent.providers.known

    def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None:
        for session in self._sessions.values():
            session.on_mcp_message(server_id, request_id, method, params)


def _info_of(session_id: str, setup: SessionSetup) -> SessionInfo:
    return SessionInfo(
        session_id=session_id,
        cwd=os.path.normpath(setup.cwd),
        additional_directories=setup.additional_directories,
    )
