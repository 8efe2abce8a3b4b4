"""Calls of a client to an agent of version 2: a turn ends when the session is idle, not when the prompt is answered."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import msgspec

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.session_setup import Implementation, SessionParams
from duologue.conversation.settings import ConfigOption
from duologue.conversation.updates import StateUpdate
from duologue.errors import DowngradeRequired, ProtocolViolation, error_for_code
from duologue.protocol.background_tasks import declares_tasks
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.shared.agent_proxy import AgentProxy
from duologue.protocol.shared.session_setup import implementation_from_wire
from duologue.protocol.steering import spelling_of
from duologue.protocol.v2 import content, settings
from duologue.protocol.v2.session_setup import (
    agent_capabilities_from_wire,
    auth_method_from_wire,
    client_capabilities_to_wire,
    implementation_to_wire,
)
from duologue.protocol.v2.updates import commands_from_wire
from duologue.protocol.values import ClientCapabilities, InitializeResult, PromptResult, SessionOpened
from duologue.runtime.connection import Connection
from duologue.runtime.tasks import TaskScope
from duologue.schema import v2
from duologue.schema.base import Method
from duologue.schema.codec import decode

_INITIALIZE: Method[Any, dict[str, Any]] = Method("initialize", object, dict[str, Any])
"""Decoded as plain JSON: an agent may answer in an older version, which has other fields."""


EARLY_SECONDS = 1.0
"""Seconds to wait for work to begin after the answer to a prompt, if an idle state arrived before the answer."""


class _Turn:
    """A prompt, from its sending to the idle state that ends its turn.

    An idle state that arrives before the prompt is inserted ends something else, unless the agent sends things in the
    wrong order. It ends this turn if the echo of the prompt arrived before it, or if no work begins afterwards.

    The first idle state after a turn that was abandoned ends that turn, unless no work begins afterwards.

    Args:
        follows_abandoned: The turn before it was abandoned, and the session has not been idle since.

    Attributes:
        early: The idle state that may turn out to be the end.
    """

    def __init__(self, follows_abandoned: bool) -> None:
        self._follows_abandoned = follows_abandoned
        self.ended: asyncio.Future[StateUpdate] = asyncio.get_running_loop().create_future()
        self.early: StateUpdate | None = None
        self._is_inserted = False
        self._echoes: set[str] = set()
        self._echoes_before: set[str] = set()

    def inserted(self, message_id: str) -> None:
        """Note the answer, after all updates before it have been handled and none after it."""
        self._is_inserted = True
        if self.early is not None and message_id in self._echoes_before:
            self.end(self.early)

    def on_echo(self, message_id: str) -> None:
        """Note the echo of a user message."""
        self._echoes.add(message_id)

    def on_state(self, update: StateUpdate) -> None:
        """Note a state of the session."""
        follows_abandoned, self._follows_abandoned = self._follows_abandoned, False
        if update.state != "idle":
            self.early = None
        elif self._is_inserted and follows_abandoned:
            self.early = update
            self.ended.get_loop().call_later(EARLY_SECONDS, self.end_early)
        elif self._is_inserted:
            self.end(update)
        elif update.stop_reason is not None:
            self.early = update
            self._echoes_before = set(self._echoes)

    def end_early(self) -> None:
        """End the turn with the early idle state, because no work began after it."""
        if self.early is not None:
            self.end(self.early)

    def end(self, update: StateUpdate) -> None:
        """End the turn; later ends are ignored."""
        if not self.ended.done():
            self.ended.set_result(update)


class V2AgentProxy(AgentProxy):
    """Calls of a client to an agent of version 2."""

    schema: ClassVar[Any] = v2
    content: ClassVar[Any] = content
    settings: ClassVar[Any] = settings
    new_method: ClassVar[Method[Any, Any]] = v2.SESSION_NEW
    fork_method: ClassVar[Method[Any, Any]] = v2.SESSION_FORK
    version = 2

    def __init__(self, connection: Connection, feature_filter: FeatureFilter) -> None:
        super().__init__(connection, feature_filter)
        self._turns: dict[str, list[_Turn]] = {}
        self._abandoned: set[str] = set()
        """Sessions that were not idle since a turn of theirs was abandoned."""
        self._modes: dict[str, str] = {}
        self._tasks = TaskScope()

    async def initialize(self, info: Implementation, capabilities: ClientCapabilities) -> InitializeResult:
        offered = self._filter.strip(client_capabilities_to_wire(capabilities)) or v2.ClientCapabilities()
        request = v2.InitializeRequest(protocol_version=2, info=implementation_to_wire(info), capabilities=offered)
        answer = await self._request(_INITIALIZE, request)
        version = answer.get("protocolVersion")
        if version == 1:
            raise DowngradeRequired("the agent answered in protocol version 1 to a request in version 2", answer)
        if version != 2:
            raise ProtocolViolation(
                f"the agent uses protocol version {version!r} and this client version 2; update the older of the two"
            )
        read = decode(v2.InitializeResponse, msgspec.json.encode(answer))
        found = agent_capabilities_from_wire(read.capabilities, has_auth_methods=bool(read.auth_methods))
        return InitializeResult(
            info=implementation_from_wire(read.info),
            capabilities=msgspec.structs.replace(found, background_tasks=declares_tasks(read.meta)),
            auth_methods=[auth_method_from_wire(method) for method in read.auth_methods],
            steering=spelling_of(answer),
        )

    # --- authentication

    async def authenticate(self, method_id: str) -> None:
        await self._request(v2.AUTH_LOGIN, v2.LoginAuthRequest(method_id=method_id))

    async def logout(self) -> None:
        await self._request(v2.AUTH_LOGOUT, v2.LogoutAuthRequest())

    # --- sessions

    async def load_session(self, session_id: str, setup: SessionParams) -> SessionOpened:
        return await self._resume(session_id, setup, v2.ReplayFromStart())

    async def resume_session(self, session_id: str, setup: SessionParams) -> SessionOpened:
        return await self._resume(session_id, setup, None)

    async def _resume(self, session_id: str, setup: SessionParams, replay: v2.ReplayFromStart | None) -> SessionOpened:
        request = v2.ResumeSessionRequest(session_id=session_id, replay_from=replay, **self._setup_fields(setup))
        return await self._reopen(v2.SESSION_RESUME, request)

    def _opened(self, answer: Any, session_id: str = "") -> SessionOpened:
        return SessionOpened(
            session_id=session_id or answer.session_id,
            settings=[settings.config_option_from_wire(option) for option in answer.config_options],
            commands=commands_from_wire(answer.available_commands),
            meta=answer.meta,
        )

    def _on_opened(self, opened: SessionOpened) -> None:
        self.new_mode(opened.session_id, opened.settings)

    async def close_session(self, session_id: str) -> None:
        self._modes.pop(session_id, None)
        self._abandoned.discard(session_id)
        await super().close_session(session_id)

    # --- the turn

    async def prompt(self, session_id: str, prompt: list[Content], meta: JsonObject | None) -> PromptResult:
        turn = _Turn(session_id in self._abandoned)
        waiting = self._turns.setdefault(session_id, [])
        waiting.append(turn)
        try:
            request = v2.PromptRequest(session_id=session_id, prompt=content.blocks_to_wire(prompt), meta=meta)
            await self._request(v2.SESSION_PROMPT, request, on_release=lambda answer: turn.inserted(answer.message_id))
            return _result(await self._end_of(turn))
        except asyncio.CancelledError:
            self._abandoned.add(session_id)
            raise
        finally:
            waiting.remove(turn)
            if not waiting:
                self._turns.pop(session_id, None)

    async def _end_of(self, turn: _Turn) -> StateUpdate:
        """Wait for the state that ends the turn, or for the connection to be lost."""
        closed = self._tasks.start(self._connection.wait_closed())
        try:
            ends: set[asyncio.Future[Any]] = {turn.ended, closed}
            if turn.early is not None:
                await asyncio.wait(ends, timeout=EARLY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                turn.end_early()
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            closed.cancel()
        if not turn.ended.done():
            raise self._connection._connection_lost()
        return turn.ended.result()

    def on_state(self, session_id: str, update: StateUpdate) -> None:
        """Pass on a state, after all updates before it have been handled."""
        if update.state == "idle":
            self._abandoned.discard(session_id)
        turns = self._turns.get(session_id)
        if turns:
            turns[0].on_state(update)

    def new_mode(self, session_id: str, settings: list[ConfigOption]) -> str | None:
        """Return the mode in these config options if it has changed; otherwise None."""
        mode = next((str(setting.value) for setting in settings if setting.category == "mode"), None)
        if mode is None or mode == self._modes.get(session_id):
            return None
        self._modes[session_id] = mode
        return mode

    def on_echo(self, session_id: str, message_id: str) -> None:
        """Pass on the echo of a user message."""
        turns = self._turns.get(session_id)
        if turns:
            turns[0].on_echo(message_id)

    async def cancel(self, session_id: str) -> None:
        self._connection.internals.release_positions(session_id)
        await self._notify(v2.SESSION_CANCEL, v2.CancelSessionNotification(session_id=session_id))

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None:
        request = v2.CancelToolCallRequest(session_id=session_id, tool_call_id=tool_call_id)
        await self._request(v2.TOOL_CALL_CANCEL, request)

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None:
        request = v2.CancelTerminalRequest(session_id=session_id, terminal_id=terminal_id)
        await self._request(v2.TERMINAL_CANCEL, request)

    # --- settings

    async def set_setting(self, session_id: str, setting_id: str, value: str | bool) -> list[ConfigOption]:
        options = await super().set_setting(session_id, setting_id, value)
        self.new_mode(session_id, options)
        return options


def _result(state: StateUpdate) -> PromptResult:
    """Return how the turn ended; failed work is raised as an error of the prompt, as in version 1."""
    if state.error is not None:
        raise error_for_code(state.error.code, state.error.message, state.error.data)
    if state.stop_reason == "error":
        raise error_for_code(-32603, "the agent reported an error without details", None)
    meta = state.meta if isinstance(state.meta, dict) else None
    return PromptResult(stop_reason=state.stop_reason or "end_turn", usage=state.usage, meta=meta)
