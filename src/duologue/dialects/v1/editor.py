"""The client, as an agent that speaks version 1 reaches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from duologue.conversation.content import JsonObject
from duologue.conversation.setup import Party
from duologue.conversation.updates import (
    CompactionChanged,
    CompactionChunk,
    Notice,
    PlanChanged,
    PlanRemoved,
    SessionMessageChanged,
    SessionMessageChunk,
    SettingsChanged,
    SubagentChanged,
    ToolCallChanged,
    Update,
)
from duologue.dialects.contract import Editor
from duologue.dialects.meta import Attached, current_attachment, with_meta
from duologue.dialects.terms import (
    ClientFeatures,
    Elicitation,
    ElicitationAnswer,
    LoginStatus,
    PermissionOption,
    TerminalExit,
    TerminalOutput,
)
from duologue.dialects.v1.updates import permission_tool, update_to_wire
from duologue.errors import MethodNotFound
from duologue.runtime.connection import Connection
from duologue.schema import v1
from duologue.schema.base import Method, Model, Notification
from duologue.schema.codec import decode

__all__ = ["V1Editor", "accounts_to_wire"]

P = TypeVar("P")
R = TypeVar("R")


class V1Editor(Editor):
    """Calls of an agent to a client of version 1. What the client did not advertise is never sent."""

    def __init__(self, connection: Connection, info: Party | None, features: ClientFeatures) -> None:
        self._connection = connection
        self.info = info
        self.features = features

    @property
    def is_gone(self) -> bool:
        return self._connection.is_closed

    async def _request(self, method: Method[P, R], params: P, late: Callable[[R], object] | None = None) -> R:
        attached = current_attachment()
        if attached is None:
            return await self._connection.request(method, params, late=late)
        answer = await self._connection.request(method, _attach_to(params, attached), late=late)
        attached.received = getattr(answer, "meta", None)
        return answer

    async def _notify(self, notification: Notification[P], params: P) -> None:
        attached = current_attachment()
        await self._connection.notify(notification, params if attached is None else _attach_to(params, attached))

    async def update(self, session_id: str, update: Update) -> None:
        update = self._fit(update)
        if self._is_wanted(update):
            wire = v1.SessionNotification(session_id=session_id, update=update_to_wire(update))
            await self._notify(v1.SESSION_UPDATE, wire)

    def _is_wanted(self, update: Update) -> bool:
        features = self.features
        match update:
            case SettingsChanged(settings=[]):
                return False
            case Notice():
                return features.notices
            case CompactionChanged() | CompactionChunk():
                return features.compaction
            case PlanChanged(plan_id=str()) | PlanRemoved():
                return features.named_plans
            case SubagentChanged() | SessionMessageChanged() | SessionMessageChunk():
                return features.subagents
            case _:
                return True

    def _fit(self, update: Update) -> Update:
        """What the client does not know in the form it knows: no switches, and one plan without a name."""
        match update:
            case SettingsChanged() if not self.features.boolean_settings:
                kept = [setting for setting in update.settings if setting.kind != "boolean"]
                return SettingsChanged(settings=kept, meta=update.meta)
            case PlanChanged(plan_id=str(), entries=list()) if not self.features.named_plans:
                return PlanChanged(entries=update.entries, meta=update.meta)
            case _:
                return update

    async def ask_permission(
        self, session_id: str, tool: ToolCallChanged, options: list[PermissionOption], meta: JsonObject | None
    ) -> str | None:
        request = v1.RequestPermissionRequest(
            session_id=session_id,
            tool_call=permission_tool(tool),
            options=[
                v1.PermissionOption(option_id=option.option_id, name=option.name, kind=option.kind, meta=option.meta)
                for option in options
            ],
            meta=meta,
        )
        outcome = (await self._request(v1.SESSION_REQUEST_PERMISSION, request)).outcome
        return outcome.option_id if isinstance(outcome, v1.SelectedPermissionOutcome) else None

    async def read_file(self, session_id: str, path: str, line: int | None, limit: int | None) -> str:
        request = v1.ReadTextFileRequest(session_id=session_id, path=path, line=line, limit=limit)
        return (await self._request(v1.FS_READ_TEXT_FILE, request)).content

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        request = v1.WriteTextFileRequest(session_id=session_id, path=path, content=text)
        await self._request(v1.FS_WRITE_TEXT_FILE, request)

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str],
        env: dict[str, str],
        cwd: str | None,
        limit: int | None,
        late: Callable[[str], object] | None = None,
    ) -> str:
        request = v1.CreateTerminalRequest(
            session_id=session_id,
            command=command,
            args=args,
            env=[v1.EnvVariable(name=name, value=value) for name, value in env.items()],
            cwd=cwd,
            output_byte_limit=limit,
        )

        def too_late(answer: v1.CreateTerminalResponse) -> None:
            if late is not None:
                late(answer.terminal_id)

        return (await self._request(v1.TERMINAL_CREATE, request, too_late)).terminal_id

    async def terminal_output(self, session_id: str, terminal_id: str) -> TerminalOutput:
        request = v1.TerminalOutputRequest(session_id=session_id, terminal_id=terminal_id)
        answer = await self._request(v1.TERMINAL_OUTPUT, request)
        status = answer.exit_status
        ended = None if status is None else TerminalExit(exit_code=status.exit_code, signal=status.signal)
        return TerminalOutput(output=answer.output, truncated=answer.truncated, exit=ended)

    async def wait_for_exit(self, session_id: str, terminal_id: str) -> TerminalExit:
        request = v1.WaitForTerminalExitRequest(session_id=session_id, terminal_id=terminal_id)
        answer = await self._request(v1.TERMINAL_WAIT_FOR_EXIT, request)
        return TerminalExit(exit_code=answer.exit_code, signal=answer.signal)

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None:
        request = v1.KillTerminalRequest(session_id=session_id, terminal_id=terminal_id)
        await self._request(v1.TERMINAL_KILL, request)

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        request = v1.ReleaseTerminalRequest(session_id=session_id, terminal_id=terminal_id)
        await self._request(v1.TERMINAL_RELEASE, request)

    async def elicit(self, question: Elicitation) -> ElicitationAnswer:
        answer = await self._request(v1.ELICITATION_CREATE, _question_to_wire(question))
        match answer:
            case v1.ElicitationAcceptAction():
                return ElicitationAnswer(action="accept", content=answer.content or {}, meta=answer.meta)
            case v1.ElicitationDeclineAction():
                return ElicitationAnswer(action="decline", meta=answer.meta)
            case v1.ElicitationCancelAction():
                return ElicitationAnswer(action="cancel", meta=answer.meta)
            case _:
                return ElicitationAnswer(action=answer.tag or "cancel")

    async def complete_elicitation(self, elicitation_id: str) -> None:
        done = v1.CompleteElicitationNotification(elicitation_id=elicitation_id)
        await self._notify(v1.ELICITATION_COMPLETE, done)

    async def tell_login_status(self, status: LoginStatus) -> None:
        told = v1.AuthStatusUpdateNotification(state=status.state, accounts=accounts_to_wire(status), meta=status.meta)
        await self._notify(v1.AUTH_STATUS_UPDATE, told)

    async def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> JsonObject:
        request = v1.MessageMcpRequest(server_id=server_id, request_id=request_id, method=method, params=params)
        answer = await self._request(v1.MCP_MESSAGE, request)
        builtins: JsonObject = msgspec.to_builtins(answer)
        return builtins

    async def call_extension(self, name: str, params: Any, result: Any) -> Any:
        return await self._request(_extension(name, result), params)

    async def notify_extension(self, name: str, params: Any) -> None:
        if not name.startswith("_"):
            raise MethodNotFound(f"custom notifications begin with an underscore: {name}")
        notification: Notification[Any] = Notification(name, object)
        await self._notify(notification, params)


def _attach_to(params: Any, attached: Attached) -> Any:
    """Parameters of custom methods may be anything; to those that have no place for it, nothing is attached."""
    if isinstance(params, Model) and "meta" in params.__struct_fields__:
        return with_meta(params, attached.sent)
    if isinstance(params, dict):
        return {**params, "_meta": {**params.get("_meta", {}), **attached.sent}}
    return params


def _extension(name: str, result: Any) -> Method[Any, Any]:
    if not name.startswith("_"):
        raise MethodNotFound(f"custom methods begin with an underscore: {name}")
    return Method(name, object, result, side="client")


def _question_to_wire(question: Elicitation) -> v1.CreateElicitationRequest:
    scope: dict[str, Any] = {"session_id": question.session_id, "tool_call_id": question.tool_call_id}
    if question.request_id is not None:
        scope = {"request_id": question.request_id}
    if question.url is not None:
        return v1.ElicitationUrlMode(
            message=question.message,
            url=question.url,
            elicitation_id=question.elicitation_id or "",
            meta=question.meta,
            **scope,
        )
    schema = decode(v1.ElicitationSchema, msgspec.json.encode(question.schema or {}))
    return v1.ElicitationFormMode(message=question.message, requested_schema=schema, meta=question.meta, **scope)


def accounts_to_wire(status: LoginStatus) -> list[v1.AuthAccount]:
    """The accounts of a login status as they are written."""
    return [
        v1.AuthAccount(
            label=account.label,
            active=account.active,
            name=account.name,
            email=account.email,
            organization=account.organization,
            meta=account.meta,
        )
        for account in status.accounts
    ]
