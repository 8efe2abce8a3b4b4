"""Modes of the agent: which tools the model is offered, which rules decide, and the instructions for the model."""

from __future__ import annotations

from typing import Any

from pydantic_ai_harness.filesystem import READ_ONLY_TOOL_NAMES

from duologue.agent.settings import Settings, choice
from duologue.conversation.settings import Option
from duologue.conversation.work_state import ToolKind

LEAVE_PLAN_MODE = "leave_plan_mode"
PLAN_TOOLS = frozenset({"write_plan", "read_plan", "add_task", "update_task_status", "update_task_statuses"})
KINDS: dict[str, ToolKind] = dict.fromkeys(PLAN_TOOLS, "think")
QUIET_TOOLS = READ_ONLY_TOOL_NAMES | {"ask_user_question", "delegate_task", "load_capability"}
"""Tools that change nothing."""

READING_MODES = frozenset({"ask", "plan"})

EDIT_RULES: dict[str, Any] = {"edit": "allow", "protected": "ask", "execute": "ask", "delete": "ask"}
"""Permission rules of the mode `edit`, and of `auto` for a user without rules."""

INSTRUCTIONS = {
    "ask": "You are in ask mode: answer from what you read. You cannot change files or run commands.",
    "plan": (
        "You are in plan mode: read what you need, write down the steps with `write_plan`, then call "
        f"`{LEAVE_PLAN_MODE}` with the whole plan as Markdown. You cannot change files or run commands before the user "
        "agrees to it."
    ),
    "edit": "You are in edit mode: edit files with the file tools. The user is asked before a command runs.",
    "auto": "You are in auto mode: the user's rules decide what is allowed without asking.",
}


class CodeSettings(Settings):
    """The mode; the choice of model is added by name."""

    mode = choice(
        Option("ask", "Ask", "Read only: no edits, no commands"),
        Option("plan", "Plan", "Read only; writes a plan and asks before it begins"),
        Option("edit", "Edit", "Edits files; asks before commands and before files that other programs act on"),
        Option("auto", "Auto", "Your permission rules decide what is asked"),
        default="edit",
        category="mode",
    )


def is_offered(mode: str, tool: str, *, is_subagent: bool) -> bool:
    """Return True if the model may call a tool in this mode; subagents have no plan of their own."""
    if tool == LEAVE_PLAN_MODE or (tool in PLAN_TOOLS and is_subagent):
        return mode == "plan" and not is_subagent
    if mode in READING_MODES:
        return tool in QUIET_TOOLS or (mode == "plan" and tool in PLAN_TOOLS)
    return True
