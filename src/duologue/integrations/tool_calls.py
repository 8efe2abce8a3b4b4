"""Tool calls of a run: opened once per call of the library, finished with its result, none left running."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, cast

from duologue.agent.tool_call import ToolCallHandle
from duologue.agent.turn import Turn
from duologue.conversation.work_state import FINAL_STATUSES, ToolKind
from duologue.sanitize import escape_line, shorten

MOST_OF_ARGUMENT = 60
"""Characters of one argument in the title of a tool call."""

_WORDS: list[tuple[ToolKind, str]] = [
    ("delete", "delete|remove|unlink"),
    ("move", "move|rename"),
    ("execute", "run|exec|execute|shell|bash|terminal|command"),
    ("search", "search|find|grep|query|lookup"),
    ("fetch", "fetch|http|url|web|download|browse"),
    ("edit", "write|edit|create|update|insert|replace|patch|save|append"),
    ("read", "read|get|list|load|show|open|cat"),
    ("think", "think|plan|reason"),
]


class ToolCalls(AsyncExitStack):
    """The tool calls of one turn, by the ids of the library. Leaving the context ends those that are open.

    Args:
        turn: The turn that shows them.
        kinds: Kinds of tools by name; others are guessed.
        title: Returns the title of a call of a tool with these arguments. Default: as Python writes a call.
    """

    def __init__(
        self,
        turn: Turn[Any],
        kinds: Mapping[str, ToolKind] | None,
        title: Callable[[str, Any], str] | None = None,
    ) -> None:
        super().__init__()
        self._title = title or tool_title
        self.handles: dict[str, ToolCallHandle] = {}
        self._turn = turn
        self._kinds = kinds or {}

    def kind_of(self, name: str) -> ToolKind:
        """Return the kind that the author gave, or a guess."""
        return self._kinds.get(name) or guess_tool_kind(name)

    async def open(self, call_id: str, name: str, arguments: Any) -> ToolCallHandle:
        """Announce a tool call; return the open one if it was announced before."""
        if call_id not in self.handles:
            title = self._title(name, arguments)
            tool = self._turn.tool(title, self.kind_of(name), name=name, raw_input=arguments)
            self.handles[call_id] = await self.enter_async_context(tool)
        return self.handles[call_id]

    async def finish(self, call_id: str, text: str, raw_output: Any, *, is_error: bool) -> None:
        """Show the result of a tool call that is still open."""
        tool = self.handles.get(call_id)
        if tool is None or tool.status in FINAL_STATUSES:
            return
        if is_error:
            await tool.fail(text)
            return
        await tool.show(text)
        await tool.update(status="completed", raw_output=raw_output)

    async def stop(self, failed: str, text: str) -> None:
        """Fail the tool call that ended the run, and cancel the others that are open."""
        await self.finish(failed, text, None, is_error=True)
        for tool in self.handles.values():
            if tool.status not in FINAL_STATUSES:
                await tool.show("stopped, because another tool call failed", status="cancelled")


def tool_title(name: str, arguments: Any) -> str:
    """Return the title of a tool call: `read_file(path="notes.md")`, with long arguments cut."""
    if not isinstance(arguments, Mapping):
        return name
    fields = cast("Mapping[str, Any]", arguments)
    given = ", ".join(f"{key}={shorten(to_json(value), MOST_OF_ARGUMENT)}" for key, value in fields.items())
    return escape_line(f"{name}({given})")


def to_json(value: Any) -> str:
    """Return a value as JSON for a person to read; what has no JSON is shown as Python does."""
    return json.dumps(value, ensure_ascii=False, default=repr)


def missing_extra(error: ImportError, extra: str) -> ImportError:
    """Return the error for an adapter whose library is not installed."""
    return ImportError(f"this adapter needs {error.name}: pip install 'duologue[{extra}]'", name=error.name)


def guess_tool_kind(name: str) -> ToolKind:
    """Return the kind: `read_file` is `read`, `run_tests` is `execute`, `frobnicate` is `other`."""
    words = set(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))
    for kind, known in _WORDS:
        if words & set(known.split("|")):
            return kind
    return "other"
