"""Run a command for a turn, shown as a tool call: in the client's terminal, or as a child process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from duologue.agent.terminal import open_terminal
from duologue.conversation.work_state import TerminalExit, ToolStatus

if TYPE_CHECKING:
    from duologue.agent.tool_call import ToolCallHandle
    from duologue.agent.turn import Turn


class CommandResult(Struct, frozen=True, kw_only=True):
    """Output and exit of a command that has ended.

    Attributes:
        output: The kept output, stdout and stderr as they came.
        exit_code: The exit code, or `None` if a signal ended the command.
        signal: Name of the signal that ended the command.
        truncated: True if the beginning of the output was dropped.
        timed_out: True if the command was killed after its timeout.
    """

    output: str
    exit_code: int | None = None
    signal: str | None = None
    truncated: bool = False
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """True if the command ended by itself with exit code 0."""
        return self.exit_code == 0 and not self.timed_out


async def run_command(
    turn: Turn[Any],
    argv: list[str],
    *,
    cwd: str | Path | None,
    env: dict[str, str],
    timeout: float | None,
    limit: int,
    title: str | None,
    tool: ToolCallHandle | None,
) -> CommandResult:
    """Run a command, show it as a tool call, and end it with everything it started, whatever happens."""
    directory = str(turn.absolute(cwd or "."))
    raw_input = {"command": argv, "cwd": directory}
    if tool is not None:
        await tool.update(raw_input=raw_input)
        return await _run(turn, tool, argv, directory, env, timeout, limit)
    async with turn.tool(title or " ".join(argv), kind="execute", raw_input=raw_input, cancellable=True) as own:
        return await _run(turn, own, argv, directory, env, timeout, limit)


async def _run(
    turn: Turn[Any],
    tool: ToolCallHandle,
    argv: list[str],
    cwd: str,
    env: dict[str, str],
    timeout: float | None,
    limit: int,
) -> CommandResult:
    async with open_terminal(turn.session, argv, cwd=cwd, env=env, limit=limit) as terminal:
        tool.on_cancel = terminal.kill
        if terminal.part is not None:
            await tool.show(terminal.part)
        else:
            await tool.update(status="in_progress")
        exit_, timed_out = None, False
        try:
            async with asyncio.timeout(timeout):
                exit_ = await terminal.wait()
        except TimeoutError:
            timed_out = True
            await terminal.kill()
        seen = await terminal.output()
        if terminal.part is None and seen.output:
            await tool.show(seen.output)
    exit_ = exit_ or seen.exit or TerminalExit()
    result = CommandResult(
        output=seen.output,
        truncated=seen.truncated,
        exit_code=exit_.exit_code,
        signal=exit_.signal,
        timed_out=timed_out,
    )
    # Send the output too: some clients do not show terminals, and a released terminal is gone.
    raw_output = {
        "output": result.output,
        "exitCode": result.exit_code,
        "signal": result.signal,
        "timedOut": result.timed_out,
    }
    tool.on_cancel = None
    status: ToolStatus = "cancelled" if tool.is_cancelled else "completed" if result.ok else "failed"
    await tool.update(status=status, raw_output=raw_output)
    return result
