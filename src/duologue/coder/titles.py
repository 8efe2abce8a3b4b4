"""Titles of tool calls, as a user reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from duologue.integrations.tool_calls import tool_title
from duologue.sanitize import escape_line, shorten

MOST_OF_TITLE = 200

_TITLES = {
    "read_file": "Read {path}",
    "write_file": "Write {path}",
    "edit_file": "Edit {path}",
    "list_directory": "List {path}",
    "create_directory": "Make the directory {path}",
    "file_info": "Look at {path}",
    "search_files": "Search for {pattern}",
    "find_files": "Find {pattern}",
    "run_command": "{command}",
    "delegate_task": "Ask a subagent: {task}",
    "write_plan": "Write the plan",
    "ask_user_question": "Ask a question",
    "leave_plan_mode": "Begin with the plan?",
}


def title_of(name: str, arguments: Any) -> str:
    """Return the title of a call of a tool; of one without a title of its own, as Python writes a call."""
    if name not in _TITLES or not isinstance(arguments, Mapping):
        return tool_title(name, arguments)
    given = {key: str(value) for key, value in cast("Mapping[str, Any]", arguments).items()}
    text = _TITLES[name].format_map({"path": ".", "pattern": "", "command": "", "task": "", **given})
    return shorten(escape_line(text, most=None), MOST_OF_TITLE)
