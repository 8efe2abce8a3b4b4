"""Find acts of an agent that no permission could prevent: done without asking and without this client's services."""

from __future__ import annotations

from duologue.client.permissions.actions import CHANGING, Action, ActionContext, actions_of_tool
from duologue.client.permissions.request import PermissionRequest
from duologue.client.services.terminals import Terminals
from duologue.client.turn import ClientTurn
from duologue.conversation.items import ToolCall
from duologue.sanitize import escape_line

MOST_REQUESTS = 10_000
"""Requests of one turn that are recorded; after more than that no act is reported, since it may be one of them."""
ACTING = CHANGING | {"execute"}


class UncheckedActs:
    """Records what the permission policy decided in a turn, and names completed tool calls that it never saw.

    Args:
        terminals: Terminals of this client.
    """

    def __init__(self, terminals: Terminals) -> None:
        self._terminals = terminals
        self._count = 0
        self._tool_calls: set[str] = set()
        self._actions: set[Action] = set()

    def begin(self) -> None:
        """Forget the turn before."""
        self._count = 0
        self._tool_calls.clear()
        self._actions.clear()

    def record(self, request: PermissionRequest) -> None:
        """Record a request that the policy decides: a question of the agent, or its use of a file or a terminal."""
        self._count += 1
        if self._count <= MOST_REQUESTS:
            self._tool_calls.add(request.tool.tool_call_id)
            self._actions.update(request.actions)

    def of(self, turn: ClientTurn) -> list[str]:
        """Return each change of a file and each command that was completed and never decided here, in one line."""
        if self._count > MOST_REQUESTS:
            return []
        context = ActionContext.of("", str(turn.session.cwd))
        lines: dict[str, None] = {}
        for call in turn.tool_calls:
            if call.status == "completed" and call.tool_call_id not in self._tool_calls:
                has_own_terminal = any(self._terminals.shown(each) is not None for each in call.terminals)
                acts = [action for action in actions_of_tool(call, context) if action.kind in ACTING]
                unchecked = [action for action in acts if not self._is_checked(action, has_own_terminal)]
                lines |= dict.fromkeys(_line(action, call) for action in unchecked)
        return list(lines)

    def _is_checked(self, action: Action, has_own_terminal: bool) -> bool:
        """Return True if the policy decided this act; one that is not named may be any of its kind."""
        if action.kind == "execute" and has_own_terminal:
            return True
        if action.command is None and action.path is None:
            return action.kind in {each.kind for each in self._actions}
        lines = {each.command.line for each in self._actions if each.command is not None}
        paths = {each.path for each in self._actions if each.kind in CHANGING}
        return action.path in paths if action.command is None else action.command.line in lines


def _line(action: Action, call: ToolCall) -> str:
    named = action.path if action.command is None else action.command.line
    return f"{action.kind} {escape_line(named or call.title)}"
