"""What a client of version 1 does for its agent: each request becomes a call of the client's core."""

from __future__ import annotations

import msgspec

from duologue.dialects.contract import ClientCore
from duologue.dialects.terms import ClientFeatures, Elicitation, PermissionOption
from duologue.dialects.v1.client import status_from_wire
from duologue.dialects.v1.updates import permission_tool_from_wire, update_from_wire
from duologue.errors import InvalidParams
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v1
from duologue.schema.base import UNSET

__all__ = ["V1ClientService"]


class V1ClientService:
    """Registers what the client offers, and nothing else: the rest is answered with "no such method"."""

    def __init__(self, core: ClientCore, features: ClientFeatures, handlers: Handlers) -> None:
        self._core = core
        self._features = features
        on = handlers.on
        on(v1.SESSION_UPDATE)(self._update)
        on(v1.SESSION_REQUEST_PERMISSION)(self._ask_permission)
        on(v1.AUTH_STATUS_UPDATE)(self._login_status)
        on(v1.ELICITATION_COMPLETE)(self._elicitation_completed)
        on(v1.MCP_MESSAGE)(self._mcp_message)
        if features.reads_files:
            on(v1.FS_READ_TEXT_FILE)(self._read_file)
        if features.writes_files:
            on(v1.FS_WRITE_TEXT_FILE)(self._write_file)
        if features.terminals:
            on(v1.TERMINAL_CREATE)(self._create_terminal)
            on(v1.TERMINAL_OUTPUT)(self._terminal_output)
            on(v1.TERMINAL_WAIT_FOR_EXIT)(self._wait_for_exit)
            on(v1.TERMINAL_KILL)(self._kill_terminal)
            on(v1.TERMINAL_RELEASE)(self._release_terminal)
        if features.forms or features.urls:
            on(v1.ELICITATION_CREATE)(self._elicit)

    async def _update(self, context: Context, params: v1.SessionNotification) -> None:
        await self._core.update(params.session_id, update_from_wire(params.update), context.raw)

    async def _ask_permission(
        self, context: Context, params: v1.RequestPermissionRequest
    ) -> v1.RequestPermissionResponse:
        options = [
            PermissionOption(option_id=option.option_id, name=option.name, kind=option.kind, meta=option.meta)
            for option in params.options
        ]
        tool = permission_tool_from_wire(params.tool_call)
        chosen = await self._core.ask_permission(params.session_id, tool, options, context.raw)
        if chosen is None:
            return v1.RequestPermissionResponse(outcome=v1.CancelledPermissionOutcome())
        return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=chosen))

    async def _read_file(self, context: Context, params: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
        text = await self._core.read_file(params.session_id, params.path, params.line, params.limit)
        return v1.ReadTextFileResponse(content=text)

    async def _write_file(self, context: Context, params: v1.WriteTextFileRequest) -> v1.WriteTextFileResponse:
        await self._core.write_file(params.session_id, params.path, params.content)
        return v1.WriteTextFileResponse()

    async def _create_terminal(self, context: Context, params: v1.CreateTerminalRequest) -> v1.CreateTerminalResponse:
        env = {variable.name: variable.value for variable in params.env}
        terminal_id = await self._core.create_terminal(
            params.session_id, params.command, params.args, env, params.cwd, params.output_byte_limit
        )
        return v1.CreateTerminalResponse(terminal_id=terminal_id)

    async def _terminal_output(self, context: Context, params: v1.TerminalOutputRequest) -> v1.TerminalOutputResponse:
        seen = await self._core.terminal_output(params.session_id, params.terminal_id)
        status = None
        if seen.exit is not None:
            status = v1.TerminalExitStatus(exit_code=seen.exit.exit_code, signal=seen.exit.signal)
        return v1.TerminalOutputResponse(output=seen.output, truncated=seen.truncated, exit_status=status)

    async def _wait_for_exit(
        self, context: Context, params: v1.WaitForTerminalExitRequest
    ) -> v1.WaitForTerminalExitResponse:
        ended = await self._core.wait_for_exit(params.session_id, params.terminal_id)
        return v1.WaitForTerminalExitResponse(exit_code=ended.exit_code, signal=ended.signal)

    async def _kill_terminal(self, context: Context, params: v1.KillTerminalRequest) -> v1.KillTerminalResponse:
        await self._core.kill_terminal(params.session_id, params.terminal_id)
        return v1.KillTerminalResponse()

    async def _release_terminal(
        self, context: Context, params: v1.ReleaseTerminalRequest
    ) -> v1.ReleaseTerminalResponse:
        await self._core.release_terminal(params.session_id, params.terminal_id)
        return v1.ReleaseTerminalResponse()

    async def _elicit(self, context: Context, params: v1.CreateElicitationRequest) -> v1.CreateElicitationResponse:
        question = self._question(params)
        answer = await self._core.elicit(question)
        match answer.action:
            case "accept":
                return v1.ElicitationAcceptAction(content=answer.content, meta=answer.meta)
            case "decline":
                return v1.ElicitationDeclineAction(meta=answer.meta)
            case _:
                return v1.ElicitationCancelAction(meta=answer.meta)

    def _question(self, params: v1.CreateElicitationRequest) -> Elicitation:
        match params:
            case v1.ElicitationFormMode() if self._features.forms:
                schema = msgspec.to_builtins(params.requested_schema)
                return Elicitation(
                    message=params.message,
                    session_id=params.session_id,
                    tool_call_id=params.tool_call_id,
                    request_id=None if params.request_id is UNSET else params.request_id,
                    schema=schema,
                    meta=params.meta,
                )
            case v1.ElicitationUrlMode() if self._features.urls:
                return Elicitation(
                    message=params.message,
                    session_id=params.session_id,
                    tool_call_id=params.tool_call_id,
                    request_id=None if params.request_id is UNSET else params.request_id,
                    url=params.url,
                    elicitation_id=params.elicitation_id,
                    meta=params.meta,
                )
            case _:
                raise InvalidParams("$.mode: this client was not asked for such a question")

    async def _elicitation_completed(self, context: Context, params: v1.CompleteElicitationNotification) -> None:
        await self._core.elicitation_completed(params.elicitation_id)

    async def _login_status(self, context: Context, params: v1.AuthStatusUpdateNotification) -> None:
        await self._core.login_status_changed(status_from_wire(params))

    async def _mcp_message(self, context: Context, params: v1.MessageMcpRequest) -> v1.MessageMcpResponse:
        answer = await self._core.mcp_message(params.server_id, params.request_id, params.method, params.params)
        if "result" in answer:
            return v1.MessageMcpResult(result=answer["result"])
        return v1.MessageMcpError(error=answer.get("error"))  # type: ignore[arg-type]  # any JSON-RPC error object
