"""Commands that an agent runs and shows, for an editor that has no such thing: their output as text in tool calls.

What a command prints is told at most every `PAUSE` seconds and at its end, and of its output the end alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from duologue.conversation.content import TextContent
from duologue.conversation.items import Terminal
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import ContentPart, TerminalPart, ToolCallUpdate, ToolContent, Update
from duologue.errors import ConnectionLost
from duologue.runtime.tasks import TaskScope
from duologue.sanitize import strip_terminal_controls

__all__ = ["TerminalsAsText"]

PAUSE = 0.2
"""Seconds between two looks at one command: quick enough to follow, and little beside what a model says."""

SHOWN_CHARACTERS = 16 * 1024
"""What is told of an output, each time: more than a screen, and five times that a second is no load."""

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


class TerminalsAsText:
    """The commands of one session.

    Args:
        transcript: The session as it stands; it knows what was printed.
        tell: Tells the editor.
        tasks: Where the looks are taken.
    """

    def __init__(self, transcript: Transcript, tell: Callable[[Update], Awaitable[None]], tasks: TaskScope) -> None:
        self._transcript = transcript
        self._tell = tell
        self._tasks = tasks
        self._calls: dict[str, set[str]] = {}
        """The tool calls that show a terminal."""
        self._changed: dict[str, None] = {}
        self._looking: asyncio.Task[None] | None = None

    def as_text(self, tool_call_id: str, content: list[ToolContent]) -> list[ToolContent]:
        """What a tool call shows, with the output of its commands as text."""
        for part in content:
            if isinstance(part, TerminalPart):
                self._calls.setdefault(part.terminal_id, set()).add(tool_call_id)
        return [self._text(part) if isinstance(part, TerminalPart) else part for part in content]

    async def changed(self, terminal_id: str) -> None:
        """A command has printed something, or has ended."""
        if terminal_id not in self._calls:
            return
        self._changed[terminal_id] = None
        terminal = self._transcript.terminal(terminal_id)
        if terminal is not None and terminal.exit is not None:
            await self.catch_up()
        elif self._looking is None or self._looking.done():
            self._looking = self._tasks.start(self._look())

    async def catch_up(self) -> None:
        """Tell what is not told yet."""
        calls = {call_id: None for terminal_id in self._changed for call_id in sorted(self._calls[terminal_id])}
        self._changed.clear()
        for call_id in calls:
            call = self._transcript.tool_call(call_id)
            if call is not None:
                content = self.as_text(call_id, call.content)
                await self._tell(ToolCallUpdate(tool_call_id=call_id, content=content))

    async def _look(self) -> None:
        try:
            while self._changed:
                await asyncio.sleep(PAUSE)
                await self.catch_up()
        except ConnectionLost:
            return  # nobody looks any more

    def _text(self, part: TerminalPart) -> ContentPart:
        terminal = self._transcript.terminal(part.terminal_id) or Terminal(terminal_id=part.terminal_id)
        return ContentPart(TextContent(_in_a_fence(_told(terminal))), part.meta)


def _told(terminal: Terminal) -> str:
    """A command, what it has printed, and how it ended."""
    lines = [] if terminal.command is None else [f"$ {terminal.command}"]
    output = _COLOUR.sub("", strip_terminal_controls(terminal.text))
    is_cut = terminal.is_truncated or len(output) > SHOWN_CHARACTERS
    if is_cut:
        lines.append("…")
    if output:
        lines.append(output[-SHOWN_CHARACTERS:].removesuffix("\n"))
    ended = terminal.exit
    if ended is not None and ended.signal is not None:
        lines.append(f"[ended by {ended.signal}]")
    elif ended is not None and ended.exit_code:
        lines.append(f"[exit code {ended.exit_code}]")
    return "\n".join(lines)


def _in_a_fence(text: str) -> str:
    """As Markdown that is shown as it is: the fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
