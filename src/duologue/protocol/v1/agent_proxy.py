"""Calls of a client to an agent of version 1."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.session_setup import Implementation, SessionParams
from duologue.errors import ProtocolViolation
from duologue.protocol.background_tasks import declares_tasks
from duologue.protocol.shared.agent_proxy import AgentProxy
from duologue.protocol.shared.session_setup import implementation_from_wire
from duologue.protocol.shared.updates import token_usage_from_wire
from duologue.protocol.steering import spelling_of
from duologue.protocol.v1 import content, settings
from duologue.protocol.v1.session_setup import (
    agent_capabilities_from_wire,
    auth_method_from_wire,
    client_capabilities_to_wire,
    implementation_to_wire,
)
from duologue.protocol.values import ClientCapabilities, InitializeResult, PromptResult, SessionOpened
from duologue.schema import legacy, v1
from duologue.schema.base import Method


class _OpenedWithModels(legacy.NewSessionResponse, frozen=True, kw_only=True):
    """Any response that opens a session, with the `models` of older agents; load and resume have no id."""

    session_id: str = ""


def _with_models(method: Method[Any, Any]) -> Method[Any, _OpenedWithModels]:
    """Return the method with a result type that has the fields of older agents."""
    return Method(
        method.name,
        method.params,
        _OpenedWithModels,
        side=method.side,
        opens_session=method.opens_session,
        in_order=method.in_order,
        stable=method.stable,
    )


_LOAD = _with_models(v1.SESSION_LOAD)
_RESUME = _with_models(v1.SESSION_RESUME)


class V1AgentProxy(AgentProxy):
    """Calls of a client to an agent of version 1."""

    schema: ClassVar[Any] = v1
    content: ClassVar[Any] = content
    settings: ClassVar[Any] = settings
    new_method: ClassVar[Method[Any, Any]] = _with_models(v1.SESSION_NEW)
    fork_method: ClassVar[Method[Any, Any]] = _with_models(v1.SESSION_FORK)
    version = 1

    async def initialize(self, info: Implementation, capabilities: ClientCapabilities) -> InitializeResult:
        request = v1.InitializeRequest(
            protocol_version=1,
            client_capabilities=self._filter.strip(client_capabilities_to_wire(capabilities))
            or v1.ClientCapabilities(),
            client_info=implementation_to_wire(info),
        )
        answer = await self._request(legacy.INITIALIZE, request)
        if answer.protocol_version != 1:
            raise ProtocolViolation(
                f"the agent uses protocol version {answer.protocol_version} and this client version 1; "
                f"update the older of the two"
            )
        return self.read_answer(answer)

    def read_answer(self, answer: legacy.InitializeResponse) -> InitializeResult:
        """Read the answer to `initialize`."""
        capabilities = agent_capabilities_from_wire(answer.agent_capabilities)
        return InitializeResult(
            info=implementation_from_wire(answer.agent_info),
            capabilities=msgspec.structs.replace(capabilities, background_tasks=declares_tasks(answer.meta)),
            auth_methods=[auth_method_from_wire(method) for method in answer.auth_methods],
            steering=spelling_of(msgspec.to_builtins(answer)),
        )

    # --- authentication

    async def authenticate(self, method_id: str) -> None:
        await self._request(v1.AUTHENTICATE, v1.AuthenticateRequest(method_id=method_id))

    async def logout(self) -> None:
        await self._request(v1.LOGOUT, v1.LogoutRequest())

    # --- sessions

    async def load_session(self, session_id: str, setup: SessionParams) -> SessionOpened:
        request = v1.LoadSessionRequest(session_id=session_id, **self._setup_fields(setup))
        return await self._reopen(_LOAD, request)

    async def resume_session(self, session_id: str, setup: SessionParams) -> SessionOpened:
        request = v1.ResumeSessionRequest(session_id=session_id, **self._setup_fields(setup))
        return await self._reopen(_RESUME, request)

    def _opened(self, answer: _OpenedWithModels, session_id: str = "") -> SessionOpened:
        return SessionOpened(
            session_id=session_id or answer.session_id,
            settings=[settings.config_option_from_wire(option) for option in answer.config_options or []],
            modes=settings.modes_from_wire(answer.modes),
            models=None if answer.models is None else settings.models_from_wire(answer.models),
            meta=answer.meta,
        )

    # --- the turn

    async def prompt(self, session_id: str, prompt: list[Content], meta: JsonObject | None) -> PromptResult:
        request = v1.PromptRequest(session_id=session_id, prompt=content.blocks_to_wire(prompt), meta=meta)
        answer = await self._request(v1.SESSION_PROMPT, request)
        return PromptResult(stop_reason=answer.stop_reason, usage=token_usage_from_wire(answer.usage), meta=answer.meta)

    async def cancel(self, session_id: str) -> None:
        self._connection.internals.release_positions(session_id)
        await self._notify(v1.SESSION_CANCEL, v1.CancelNotification(session_id=session_id))

    # --- settings

    async def set_mode(self, session_id: str, mode_id: str) -> None:
        request = v1.SetSessionModeRequest(session_id=session_id, mode_id=mode_id)
        await self._request(v1.SESSION_SET_MODE, request)

    async def set_model(self, session_id: str, model_id: str) -> None:
        request = legacy.SetSessionModelRequest(session_id=session_id, model_id=model_id)
        await self._request(legacy.SESSION_SET_MODEL, request)
