"""The methods of a client in version 1."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, ClassVar

from duologue.conversation.updates import Role, ToolCallUpdate
from duologue.conversation.work_state import TerminalExit
from duologue.errors import ResourceNotFound
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.interfaces import ClientHandler
from duologue.protocol.shared.client_methods import ClientMethods
from duologue.protocol.v1.terminal_meta import terminal_updates
from duologue.protocol.v1.updates import permission_tool_from_wire, update_from_wire
from duologue.protocol.values import ClientCapabilities
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import legacy, v1
from duologue.schema.base import JsonObject


class V1ClientMethods(ClientMethods):
    """Registers the methods that the client offers to an agent of version 1."""

    schema: ClassVar[Any] = v1
    text_roles: ClassVar[dict[type, Role]] = {v1.AgentMessageChunk: "agent", v1.AgentThoughtChunk: "thought"}

    def __init__(
        self, client: ClientHandler, capabilities: ClientCapabilities, handlers: Handlers, feature_filter: FeatureFilter
    ) -> None:
        super().__init__(client, capabilities, handlers, feature_filter)
        self._answer_permission(v1.SESSION_REQUEST_PERMISSION)
        if capabilities.reads_files:
            self._answer_in_order(v1.FS_READ_TEXT_FILE, self._read_file)
        if capabilities.writes_files:
            self._answer_in_order(v1.FS_WRITE_TEXT_FILE, self._write_file)
        if capabilities.terminals:
            self._answer_in_order(v1.TERMINAL_CREATE, self._create_terminal)
            self._on_request(v1.TERMINAL_OUTPUT, self._terminal_output)
            self._on_request(v1.TERMINAL_WAIT_FOR_EXIT, self._wait_for_exit)
            self._on_request(v1.TERMINAL_KILL, self._kill_terminal)
            self._on_request(v1.TERMINAL_RELEASE, self._release_terminal)

    async def _read_update(self, context: Context, params: v1.SessionNotification) -> None:
        update = update_from_wire(params.update)
        for each in (*terminal_updates(update), update):
            await self._on_update(context, params, each)

    def _tool_of(self, context: Context, params: v1.RequestPermissionRequest) -> ToolCallUpdate:
        return permission_tool_from_wire(params.tool_call)

    async def _read_file(self, context: Context, params: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
        text = await self._client.read_file(params.session_id, params.path, params.line, params.limit)
        return v1.ReadTextFileResponse(content=text)

    async def _write_file(self, context: Context, params: v1.WriteTextFileRequest) -> v1.WriteTextFileResponse:
        await self._client.write_file(params.session_id, params.path, params.content)
        return v1.WriteTextFileResponse()

    async def _create_terminal(self, context: Context, params: v1.CreateTerminalRequest) -> v1.CreateTerminalResponse:
        env = {variable.name: variable.value for variable in params.env}
        terminal_id = await self._client.create_terminal(
            params.session_id, params.command, params.args, env, params.cwd, params.output_byte_limit
        )
        return v1.CreateTerminalResponse(terminal_id=terminal_id)

    async def _terminal_output(self, context: Context, params: v1.TerminalOutputRequest) -> v1.TerminalOutputResponse:
        current = await self._client.terminal_output(params.session_id, params.terminal_id)
        status = None
        if current.exit is not None:
            status = v1.TerminalExitStatus(exit_code=current.exit.exit_code, signal=current.exit.signal)
        return v1.TerminalOutputResponse(output=current.output, truncated=current.truncated, exit_status=status)

    async def _wait_for_exit(
        self, context: Context, params: v1.WaitForTerminalExitRequest
    ) -> v1.WaitForTerminalExitResponse:
        requested = legacy.wait_request(params.meta)
        ended = await self._wait(params, requested.seconds)
        meta = await self._output_meta(params) if requested.output else None
        code, signal = (None, None) if ended is None else (ended.exit_code, ended.signal)
        return v1.WaitForTerminalExitResponse(exit_code=code, signal=signal, meta=meta)

    async def _wait(self, params: v1.WaitForTerminalExitRequest, seconds: float | None) -> TerminalExit | None:
        """Wait until the command ends; return None if it still runs after `seconds`."""
        waiting = self._client.wait_for_exit(params.session_id, params.terminal_id)
        if seconds is None:
            return await waiting
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await waiting
        return None

    async def _output_meta(self, params: v1.WaitForTerminalExitRequest) -> JsonObject | None:
        """Return the output as the `_meta` of an answer; a terminal that was released has none."""
        try:
            current = await self._client.terminal_output(params.session_id, params.terminal_id)
        except ResourceNotFound:
            return legacy.seed_meta(output="")
        return legacy.seed_meta(output=current.output)

    async def _kill_terminal(self, context: Context, params: v1.KillTerminalRequest) -> v1.KillTerminalResponse:
        await self._client.kill_terminal(params.session_id, params.terminal_id)
        return v1.KillTerminalResponse()

    async def _release_terminal(
        self, context: Context, params: v1.ReleaseTerminalRequest
    ) -> v1.ReleaseTerminalResponse:
        await self._client.release_terminal(params.session_id, params.terminal_id)
        return v1.ReleaseTerminalResponse()
