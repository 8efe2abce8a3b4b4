"""Files and commands of a turn: the client's where it offers them, otherwise our own inside the session's roots."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from duologue.agent.terminal import open_terminal
from duologue.protocol.values import TerminalExit

if TYPE_CHECKING:
    from duologue.agent.session import Session
    from duologue.agent.tool_call import ToolCallHandle
    from duologue.agent.turn import Turn

__all__ = ["OUTPUT_LIMIT", "CommandResult", "Files", "run_command"]

OUTPUT_LIMIT = 1024 * 1024
"""What is kept of a command's output unless told otherwise: more than any model reads."""


class Files:
    """The files of a session. Paths are absolute, or relative to its directory."""

    def __init__(self, session: Session[Any]) -> None:
        self._session = session

    async def read(self, path: str | Path, *, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file, unsaved changes included if the client has them; from `line` (1 is the first) at most
        `limit` lines.

        Raises:
            ResourceNotFound: There is no such file.
            InvalidParams: Outside the session's roots, not a text, or too large.
        """
        target = str(self._session.cwd / path)
        editor = self._session.editor
        if editor.features.reads_files:
            return await editor.read_file(self._session.id, target, line, limit)
        return await asyncio.to_thread(self._session.roots.read_text, target, line=line, limit=limit)

    async def write(self, path: str | Path, text: str) -> None:
        """Replace the text of a file, creating it and its directories if need be.

        Raises:
            InvalidParams: Outside the session's roots, or not a file that can be written.
        """
        target = str(self._session.cwd / path)
        editor = self._session.editor
        if editor.features.writes_files:
            await editor.write_file(self._session.id, target, text)
        else:
            await asyncio.to_thread(self._session.roots.write_text, target, text)


class CommandResult(Struct, frozen=True, kw_only=True):
    """What came of a command."""

    output: str
    exit_code: int | None = None
    signal: str | None = None
    truncated: bool = False
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """It ended by itself, with code 0."""
        return self.exit_code == 0 and not self.timed_out


async def run_command(
    turn: Turn[Any],
    argv: list[str],
    *,
    cwd: str | Path | None,
    env: dict[str, str],
    timeout: float | None,
    limit: int | None,
    title: str | None,
    tool: ToolCallHandle | None,
) -> CommandResult:
    """Run it, show it as a tool call, and leave nothing of it behind, whatever happens."""
    place = str(turn.absolute(cwd or "."))
    asked = {"command": argv, "cwd": place}
    if tool is not None:
        await tool.update(raw_input=asked)
        return await _run(turn, tool, argv, place, env, timeout, limit)
    async with turn.tool(title or " ".join(argv), kind="execute", raw_input=asked, cancellable=True) as own:
        return await _run(turn, own, argv, place, env, timeout, limit)


async def _run(
    turn: Turn[Any],
    tool: ToolCallHandle,
    argv: list[str],
    cwd: str,
    env: dict[str, str],
    timeout: float | None,
    limit: int | None,
) -> CommandResult:
    keep = limit if limit is not None else OUTPUT_LIMIT
    async with open_terminal(turn.session, argv, cwd=cwd, env=env, limit=keep) as terminal:
        tool.on_cancel = terminal.kill
        if terminal.part is not None:
            await tool.show(terminal.part)
        else:
            await tool.update(status="in_progress")
        ended, timed_out = None, False
        try:
            async with asyncio.timeout(timeout):
                ended = await terminal.wait()
        except TimeoutError:
            timed_out = True
            await terminal.kill()
        seen = await terminal.output()
        if terminal.part is None and seen.output:
            await tool.show(seen.output)
    ended = ended or seen.exit or TerminalExit()
    ran = CommandResult(
        output=seen.output,
        truncated=seen.truncated,
        exit_code=ended.exit_code,
        signal=ended.signal,
        timed_out=timed_out,
    )
    # The output too: not every client shows terminals, and a terminal is gone when it is released.
    output = {"output": ran.output, "exitCode": ran.exit_code, "signal": ran.signal, "timedOut": ran.timed_out}
    tool.on_cancel = None
    status = "cancelled" if tool.is_cancelled else "completed" if ran.ok else "failed"
    await tool.update(status=status, raw_output=output)
    return ran
