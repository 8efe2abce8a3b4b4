"""Permission for what an agent does in an editor's workspace: by a policy, or by the user in a tool call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import PurePath
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.workspaces import WorkspaceError

from duologue.agent.tool_call import ToolCallHandle
from duologue.agent.turn import Turn
from duologue.conversation.updates import FileChange
from duologue.conversation.work_state import ToolKind
from duologue.integrations.approval import approval_options
from duologue.integrations.pydantic_ai.current_tool import current_tool
from duologue.sanitize import escape_line, shorten

Operation: TypeAlias = Literal["read", "write", "remove", "run"]
WorkspaceDecision: TypeAlias = Literal["allow", "ask", "reject"]

MOST_SHOWN = 120
"""Characters of a command in a title or an option."""

_KINDS: dict[Operation, ToolKind] = {"read": "read", "write": "edit", "remove": "delete", "run": "execute"}
_VERBS: dict[Operation, str] = {"read": "Read", "write": "Write", "remove": "Remove", "run": "Run"}


class WorkspaceRequest(Struct, frozen=True, kw_only=True):
    """An operation that an agent wants to perform in the workspace.

    Attributes:
        operation: `read` or `write` a file (making a directory is a write), `remove` one, or `run` a command.
        path: The file, absolute and without links; `None` for a command.
        command: The command as a shell line; `None` for a file.
    """

    operation: Operation
    path: str | None = None
    command: str | None = None


WorkspacePolicy: TypeAlias = Callable[[WorkspaceRequest], WorkspaceDecision]
"""Decides about a request; `ask` lets the user decide."""


class PermissionRejected(WorkspaceError, PermissionError, ToolFailed):
    """The user or the policy rejected it; the model gets the text as the result of its tool call, and the run goes on.

    Args:
        message: The operation, and why it was rejected.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def ask_before_commands(request: WorkspaceRequest) -> WorkspaceDecision:
    """Allow reading and writing; ask the user before a command runs or a file is removed."""
    return "ask" if request.operation in ("remove", "run") else "allow"


class WorkspaceGate:
    """Lets operations of one turn through, one by one.

    Args:
        turn: The turn that asks the user and shows what is done.
        policy: Decides what is asked.
    """

    def __init__(self, turn: Turn[Any], policy: WorkspacePolicy) -> None:
        self._turn = turn
        self._policy = policy

    @asynccontextmanager
    async def operation(
        self, request: WorkspaceRequest, *, change: FileChange | None = None, argv: Sequence[str] | None = None
    ) -> AsyncGenerator[ToolCallHandle | None]:
        """Decide about an operation and yield the tool call that shows it: that of the running tool, or one of its own.

        Args:
            request: The operation.
            change: The change to show, before the user is asked.
            argv: What runs for the command, wrapper included, for a tool call of its own.

        Raises:
            PermissionRejected: It is rejected.
        """
        decision = self._policy(request)
        if decision not in get_args(WorkspaceDecision):
            raise TypeError(f"a policy must return 'allow', 'ask' or 'reject', got {decision!r}")
        if decision == "reject":
            raise PermissionRejected(f"{self._describe(request)}: rejected by the policy of this agent")
        tool = current_tool()
        if tool is not None:
            await self._show(tool, request, change, decision)
            yield tool
        elif change is None and decision == "allow" and argv is None:
            yield None
        else:
            async with self._own_tool(request, argv) as own:
                try:
                    await self._show(own, request, change, decision)
                    yield own
                except (WorkspaceError, OSError) as error:
                    await own.fail(str(error))
                    raise

    def _own_tool(self, request: WorkspaceRequest, argv: Sequence[str] | None) -> ToolCallHandle:
        kind, title = _KINDS[request.operation], self._describe(request)
        if argv is None:
            path = request.path
            return self._turn.tool(title, kind, locations=[path] if path is not None and is_sendable(path) else [])
        # A client that decides about commands itself finds here exactly what it is then asked to start.
        raw_input = {"command": list(argv), "cwd": str(self._turn.cwd)}
        return self._turn.tool(title, kind, raw_input=raw_input, cancellable=True)

    async def _show(
        self, tool: ToolCallHandle, request: WorkspaceRequest, change: FileChange | None, decision: WorkspaceDecision
    ) -> None:
        if change is not None:
            await tool.show(change, status="pending" if decision == "ask" and tool.status == "pending" else None)
        if decision != "ask":
            return
        covered = "this command" if request.command is not None else f"this for {self._shown(request)}"
        key = f"workspace {request.operation} {request.command if request.path is None else request.path}"
        chosen = await tool.request_permission_option(options=approval_options(covered), remember_as=key)
        if chosen is None or not chosen.kind.startswith("allow"):
            raise PermissionRejected(f"{self._describe(request)}: the user did not permit this")
        await tool.update(status="in_progress")

    def _describe(self, request: WorkspaceRequest) -> str:
        return f"{_VERBS[request.operation]} {self._shown(request)}"

    def _shown(self, request: WorkspaceRequest) -> str:
        if request.path is None:
            return shorten(escape_line(request.command or ""), MOST_SHOWN)
        path, cwd = PurePath(request.path), self._turn.cwd
        return escape_line(str(path.relative_to(cwd) if path.is_relative_to(cwd) else path))


def is_sendable(path: str) -> bool:
    """Return True if a path can be in a message: names of files may be any bytes."""
    return not any("\ud800" <= character <= "\udfff" for character in path)
