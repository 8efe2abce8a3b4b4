"""A client on the wire of version 1: calls of the agent, and the agent's requests handed to the client's core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.session_setup import Implementation, SessionInfo, SessionParams
from duologue.conversation.settings import ConfigOption
from duologue.errors import ProtocolViolation
from duologue.protocol.shared.agent_proxy import BaseAgentProxy
from duologue.protocol.v1.content import blocks_to_wire
from duologue.protocol.v1.session_setup import (
    agent_features_from_wire,
    client_features_to_wire,
    info_from_wire,
    login_from_wire,
    party_from_wire,
    party_to_wire,
    servers_to_wire,
    system_prompt_to_wire,
)
from duologue.protocol.v1.settings import models_from_wire, modes_from_wire, setting_from_wire
from duologue.protocol.values import (
    ClientCapabilities,
    InitializeResult,
    PromptResult,
    SessionOpened,
    TokenUsage,
)
from duologue.schema import legacy, v1
from duologue.schema.base import Method

__all__ = ["V1AgentProxy"]


class _OpenedWithModels(legacy.NewSessionResponse, frozen=True, kw_only=True):
    """Any response that opens a session, `models` of older agents included; load and resume leave the id out."""

    session_id: str = ""


def _opening(method: Method[Any, Any]) -> Method[Any, _OpenedWithModels]:
    """The same method, its result read with what older agents add."""
    return Method(
        method.name,
        method.params,
        _OpenedWithModels,
        side=method.side,
        opens_session=method.opens_session,
        in_order=method.in_order,
        stable=method.stable,
    )


_NEW = _opening(v1.SESSION_NEW)
_LOAD = _opening(v1.SESSION_LOAD)
_RESUME = _opening(v1.SESSION_RESUME)
_FORK = _opening(v1.SESSION_FORK)


class V1AgentProxy(BaseAgentProxy):
    """Calls of a client to an agent of version 1."""

    schema: ClassVar[Any] = v1
    version = 1

    async def initialize(self, info: Implementation, features: ClientCapabilities) -> InitializeResult:
        request = v1.InitializeRequest(
            protocol_version=1,
            client_capabilities=self._gate.strip(client_features_to_wire(features)) or v1.ClientCapabilities(),
            client_info=party_to_wire(info),
        )
        answer = await self._request(legacy.INITIALIZE, request)
        if answer.protocol_version != 1:
            raise ProtocolViolation(
                f"the agent speaks version {answer.protocol_version} of the protocol, and this client version 1; "
                f"update the older of the two"
            )
        return self.welcome(answer)

    def welcome(self, answer: legacy.InitializeResponse) -> InitializeResult:
        """The agent's half of the first exchange, as it was read."""
        return InitializeResult(
            info=party_from_wire(answer.agent_info),
            capabilities=agent_features_from_wire(answer.agent_capabilities),
            login_methods=[login_from_wire(method) for method in answer.auth_methods],
        )

    # --- login

    async def login(self, method_id: str) -> None:
        await self._request(v1.AUTHENTICATE, v1.AuthenticateRequest(method_id=method_id))

    async def logout(self) -> None:
        await self._request(v1.LOGOUT, v1.LogoutRequest())

    # --- sessions

    async def new_session(
        self, setup: SessionParams, arrived: Callable[[SessionOpened], None], late: Callable[[SessionOpened], object]
    ) -> SessionOpened:
        request = v1.NewSessionRequest(**_setup_fields(setup))
        return await self._open(_NEW, request, arrived, late)

    async def load_session(self, session_id: str, setup: SessionParams) -> SessionOpened:
        request = v1.LoadSessionRequest(session_id=session_id, **_setup_fields(setup))
        return _opened(await self._request(_LOAD, request), session_id)

    async def resume_session(self, session_id: str, setup: SessionParams) -> SessionOpened:
        request = v1.ResumeSessionRequest(session_id=session_id, **_setup_fields(setup))
        return _opened(await self._request(_RESUME, request), session_id)

    async def fork_session(
        self,
        session_id: str,
        setup: SessionParams,
        arrived: Callable[[SessionOpened], None],
        late: Callable[[SessionOpened], object],
    ) -> SessionOpened:
        request = v1.ForkSessionRequest(session_id=session_id, **_setup_fields(setup))
        return await self._open(_FORK, request, arrived, late)

    async def _open(
        self,
        method: Method[Any, Any],
        request: Any,
        arrived: Callable[[SessionOpened], None],
        late: Callable[[SessionOpened], object],
    ) -> SessionOpened:
        answer = await self._request(
            method, request, arrived=lambda found: arrived(_opened(found)), late=lambda found: late(_opened(found))
        )
        return _opened(answer)

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str | None
    ) -> tuple[list[SessionInfo], str | None]:
        request = v1.ListSessionsRequest(cwd=cwd, cursor=cursor, archived=archived)
        answer = await self._request(v1.SESSION_LIST, request)
        return [info_from_wire(info) for info in answer.sessions], answer.next_cursor

    # --- the turn

    async def prompt(self, session_id: str, prompt: list[Content], meta: JsonObject | None) -> PromptResult:
        request = v1.PromptRequest(session_id=session_id, prompt=blocks_to_wire(prompt), meta=meta)
        answer = await self._request(v1.SESSION_PROMPT, request)
        return PromptResult(stop_reason=answer.stop_reason, usage=_usage_from_wire(answer.usage), meta=answer.meta)

    async def cancel(self, session_id: str) -> None:
        self._connection.give_up_places(session_id)
        await self._notify(v1.SESSION_CANCEL, v1.CancelNotification(session_id=session_id))

    # --- settings

    async def set_mode(self, session_id: str, mode_id: str) -> None:
        request = v1.SetSessionModeRequest(session_id=session_id, mode_id=mode_id)
        await self._request(v1.SESSION_SET_MODE, request)

    async def set_model(self, session_id: str, model_id: str) -> None:
        request = legacy.SetSessionModelRequest(session_id=session_id, model_id=model_id)
        await self._request(legacy.SESSION_SET_MODEL, request)

    async def set_setting(self, session_id: str, setting_id: str, value: str | bool) -> list[ConfigOption]:
        request: v1.SetSessionConfigOptionRequest
        if isinstance(value, bool):
            request = v1.SetSessionConfigOptionBoolean(session_id=session_id, config_id=setting_id, value=value)
        else:
            request = v1.SetSessionConfigOptionId(session_id=session_id, config_id=setting_id, value=value)
        answer = await self._request(v1.SESSION_SET_CONFIG_OPTION, request)
        return [setting_from_wire(option) for option in answer.config_options]


def _setup_fields(setup: SessionParams) -> dict[str, Any]:
    return {
        "cwd": setup.cwd,
        "mcp_servers": servers_to_wire(setup.mcp_servers),
        "additional_directories": setup.additional_directories,
        "system_prompt": system_prompt_to_wire(setup.system_prompt),
        "meta": setup.meta,
    }


def _opened(answer: _OpenedWithModels, session_id: str = "") -> SessionOpened:
    return SessionOpened(
        session_id=session_id or answer.session_id,
        settings=[setting_from_wire(option) for option in answer.config_options or []],
        modes=modes_from_wire(answer.modes),
        models=None if answer.models is None else models_from_wire(answer.models),
        meta=answer.meta,
    )


def _usage_from_wire(usage: v1.Usage | None) -> TokenUsage | None:
    if usage is None:
        return None
    return TokenUsage(
        total=usage.total_tokens,
        input=usage.input_tokens,
        output=usage.output_tokens,
        thought=usage.thought_tokens,
        cached_read=usage.cached_read_tokens,
        cached_write=usage.cached_write_tokens,
        meta=usage.meta,
    )
