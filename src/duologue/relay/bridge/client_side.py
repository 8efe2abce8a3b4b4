"""What an agent asks of the editor on the other side of a bridge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import structs

from duologue.conversation.content import JsonObject
from duologue.conversation.items import ToolCall
from duologue.conversation.updates import ToolCallUpdate, Update
from duologue.errors import ConnectionLost, InternalError
from duologue.protocol.values import (
    AuthStatus,
    Elicitation,
    ElicitationAnswer,
    PermissionOption,
    TerminalExit,
    TerminalOutputResult,
)
from duologue.relay.bridge.passthrough import passing_on
from duologue.relay.bridge.state import BridgeState

__all__ = ["BridgeClientHandler"]

T = TypeVar("T")


class BridgeClientHandler:
    """The client, as the dialect of the agent sees it: everything is passed on to the editor."""

    def __init__(self, between: BridgeState) -> None:
        self._between = between

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the editor answers; what the agent said before it asked has been passed on already."""
        try:
            with passing_on():
                return await ask()
        except ConnectionLost as lost:
            raise InternalError(f"the client is gone: {lost}") from lost

    # --- what it tells

    async def update(self, session_id: str, update: Update, raw: bytes) -> None:
        if session_id not in self._between.closed and not self._between.editor.is_gone:
            await self._between.session(session_id).hear(update)

    async def elicitation_completed(self, elicitation_id: str) -> None:
        await self._between.editor.complete_elicitation(elicitation_id)

    async def login_status_changed(self, status: AuthStatus) -> None:
        await self._between.editor.send_auth_status(status)

    # --- what it asks

    def note_permission_request(self, session_id: str, tool: ToolCallUpdate, raw: bytes) -> ToolCall | None:
        return self._between.session(session_id).asked(tool)

    async def ask_permission(
        self,
        session_id: str,
        tool: ToolCallUpdate,
        known: ToolCall | None,
        options: list[PermissionOption],
        raw: bytes,
    ) -> str | None:
        between = self._between
        session = between.session(session_id)
        if session.turns.is_cancelling and between.agent_version == 1:
            return None  # asked before the agent heard of the end: nobody is to be bothered with it

        async def ask() -> str | None:
            asked = await session.question(tool, known, raw)
            return await between.editor.ask_permission(session_id, asked, options, None)

        return await self._ask(lambda: session.ask(ask()))

    async def elicit(self, question: Elicitation) -> ElicitationAnswer:
        session_id = question.session_id
        question = structs.replace(question, request_id=self._between.numbers.of_editor(question.request_id))
        if session_id is None:
            return await self._ask(lambda: self._between.editor.elicit(question))
        session = self._between.session(session_id)
        answer = await self._ask(lambda: session.ask(self._between.editor.elicit(question)))
        return answer or ElicitationAnswer(action="cancel")

    async def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> JsonObject:
        return await self._ask(lambda: self._between.editor.mcp_message(server_id, request_id, method, params))

    # --- files and terminals, where both ends have them

    async def read_file(self, session_id: str, path: str, line: int | None, limit: int | None) -> str:
        return await self._ask(lambda: self._between.editor.read_file(session_id, path, line, limit))

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        await self._ask(lambda: self._between.editor.write_file(session_id, path, text))

    async def create_terminal(
        self, session_id: str, command: str, args: list[str], env: dict[str, str], cwd: str | None, limit: int | None
    ) -> str:
        return await self._ask(lambda: self._between.editor.create_terminal(session_id, command, args, env, cwd, limit))

    async def terminal_output(self, session_id: str, terminal_id: str) -> TerminalOutputResult:
        return await self._ask(lambda: self._between.editor.terminal_output(session_id, terminal_id))

    async def wait_for_exit(self, session_id: str, terminal_id: str) -> TerminalExit:
        return await self._ask(lambda: self._between.editor.wait_for_exit(session_id, terminal_id))

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._ask(lambda: self._between.editor.kill_terminal(session_id, terminal_id))

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._ask(lambda: self._between.editor.release_terminal(session_id, terminal_id))
