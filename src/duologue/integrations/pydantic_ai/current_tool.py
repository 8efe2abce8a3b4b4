"""The tool call that a tool runs in, for workspaces and capabilities that show something in it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from duologue.agent.tool_call import ToolCallHandle

_current: ContextVar[ToolCallHandle | None] = ContextVar("current_tool", default=None)


def current_tool() -> ToolCallHandle | None:
    """Return the tool call that the running tool is shown as; `None` outside of a tool."""
    return _current.get()


@contextmanager
def as_current(tool: ToolCallHandle) -> Generator[None]:
    """Make a tool call the current one while the block runs."""
    token = _current.set(tool)
    try:
        yield
    finally:
        _current.reset(token)
