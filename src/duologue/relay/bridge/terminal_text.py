"""Show the terminals of an agent as text in tool calls, for clients that do not support agent terminals.

Output is sent at most every `PAUSE` seconds and at the end of a command, and only its last part.
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

PAUSE = 0.2
"""Seconds between two updates of one command: fast enough to follow, and little next to a model's output."""

SHOWN_CHARACTERS = 16 * 1024
"""The part of the output in each update: more than a screen, and no load five times a second."""

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


class TerminalsAsText:
    """The terminals of one session.

    Args:
        transcript: The state of the session, with the output of its terminals.
        send: Sends an update to the client.
        tasks: Runs the delayed updates.
    """

    def __init__(self, transcript: Transcript, send: Callable[[Update], Awaitable[None]], tasks: TaskScope) -> None:
        self._transcript = transcript
        self._send = send
        self._tasks = tasks
        self._calls: dict[str, set[str]] = {}
        """The tool calls that show a terminal."""
        self._changed: dict[str, None] = {}
        self._update_task: asyncio.Task[None] | None = None

    def as_text(self, tool_call_id: str, content: list[ToolContent]) -> list[ToolContent]:
        """Return the content of a tool call with the output of its terminals as text."""
        for part in content:
            if isinstance(part, TerminalPart):
                self._calls.setdefault(part.terminal_id, set()).add(tool_call_id)
        return [self._text(part) if isinstance(part, TerminalPart) else part for part in content]

    async def changed(self, terminal_id: str) -> None:
        """Send an update soon, because a command has printed something or has ended."""
        if terminal_id not in self._calls:
            return
        self._changed[terminal_id] = None
        terminal = self._transcript.terminal(terminal_id)
        if terminal is not None and terminal.exit is not None:
            await self.catch_up()
        elif self._update_task is None or self._update_task.done():
            self._update_task = self._tasks.start(self._send_regularly())

    async def catch_up(self) -> None:
        """Send all output that was not sent yet."""
        calls = {call_id: None for terminal_id in self._changed for call_id in sorted(self._calls[terminal_id])}
        self._changed.clear()
        for call_id in calls:
            call = self._transcript.tool_call(call_id)
            if call is not None:
                content = self.as_text(call_id, call.content)
                await self._send(ToolCallUpdate(tool_call_id=call_id, content=content))

    async def _send_regularly(self) -> None:
        try:
            while self._changed:
                await asyncio.sleep(PAUSE)
                await self.catch_up()
        except ConnectionLost:
            return  # the client is gone

    def _text(self, part: TerminalPart) -> ContentPart:
        terminal = self._transcript.terminal(part.terminal_id) or Terminal(terminal_id=part.terminal_id)
        return ContentPart(TextContent(_code_block(_describe(terminal))), part.meta)


def _describe(terminal: Terminal) -> str:
    """Return a command with its output and its exit status."""
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


def _code_block(text: str) -> str:
    """Return text as a Markdown code block, whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
