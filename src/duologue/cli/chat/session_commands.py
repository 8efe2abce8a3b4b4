"""Run the commands of a chat that are about the session: its settings, other sessions, usage."""

from __future__ import annotations

import argparse
from pathlib import Path

from duologue.cli.arguments import reopen_session, restore_saved, runs_last, sessions_here
from duologue.cli.chat.line_editor import LineEditor
from duologue.cli.chat.local_commands import LOCAL_COMMANDS, help_text, session_line, usage_text
from duologue.cli.chat.setting_commands import run_setting_command
from duologue.cli.console.line_reader import LineReader, is_interactive
from duologue.cli.console.menu import Menu
from duologue.cli.console.safe_output import say
from duologue.cli.exit_codes import UsageError
from duologue.cli.mcp_servers import mcp_servers
from duologue.client.agent import RemoteAgent
from duologue.client.session import ClientSession
from duologue.conversation.session_setup import SessionInfo
from duologue.sanitize import escape_line
from duologue.suggestion import suggestion

MOST_OFFERED = 20
"""Sessions that `:resume` offers: the newest first, those of a single `run` after the others."""


class SessionCommands:
    """Runs commands about the session.

    Args:
        arguments: Options of the command line, for new sessions.
        cwd: Directory of the chat.
        reader: Reads which session to resume.
        editor: Suspended meanwhile.
    """

    def __init__(self, arguments: argparse.Namespace, cwd: Path, reader: LineReader, editor: LineEditor) -> None:
        self._arguments = arguments
        self._cwd = cwd
        self._reader = reader
        self._editor = editor

    async def run(self, agent: RemoteAgent, session: ClientSession, name: str, argument: str) -> ClientSession:
        """Run one command; return the session to continue with.

        Raises:
            UsageError: There is no such command, or its argument is wrong.
        """
        match name:
            case "help" | "":
                say(help_text())
            case "mode" | "model" | "set":
                say(await run_setting_command(session, name, argument))
            case "commands":
                lines = (f"  /{escape_line(each.name)}  {escape_line(each.description)}\n" for each in session.commands)
                say("".join(lines) or "this agent offers no commands\n")
            case "sessions":
                lines = (
                    f"  {escape_line(info.session_id)}  {escape_line(info.title or '')}  {mark}".rstrip() + "\n"
                    for info, mark in runs_last(await sessions_here(agent, self._cwd), self._arguments)
                )
                say("".join(lines) or "the agent has no stored session of this directory\n")
            case "usage":
                say(usage_text(session.usage))
            case "stop":
                say(await _stop_task(session, argument))
            case "resume":
                return await self._resume(agent, session, argument)
            case _:
                near = suggestion(f":{name}", [f":{each}" for each in LOCAL_COMMANDS])
                raise UsageError(f"unknown command :{escape_line(name)}{near or '; `:help` lists the commands'}")
        return session

    async def _resume(self, agent: RemoteAgent, session: ClientSession, wanted: str) -> ClientSession:
        if wanted:
            found = [info for info in await agent.list_sessions() if info.session_id.startswith(wanted)]
        else:
            here = await sessions_here(agent, self._cwd)
            found = await self._pick_session(session, runs_last(here, self._arguments))
        if not wanted and not found:
            return session
        if len(found) != 1:
            raise UsageError(f"{'no' if not found else 'more than one'} session id begins with {wanted!r}")
        session_id, cwd = found[0].session_id, found[0].cwd
        if session.is_open and session_id == session.id:
            raise UsageError("this session is already open here")
        session = await reopen_session(agent, session_id, cwd, mcp_servers(self._arguments.mcp), is_replayed=True)
        restore_saved(session, self._arguments)
        return session

    async def _pick_session(self, current: ClientSession, known: list[tuple[SessionInfo, str]]) -> list[SessionInfo]:
        """Let the user choose one of the first sessions; return nothing if the user chooses none."""
        if not is_interactive():
            raise UsageError("`:resume` needs the id of a session; `:sessions` lists them")
        others = [(info, mark) for info, mark in known if info.session_id != current.id]
        sessions = [info for info, _ in others[:MOST_OFFERED]]
        if not sessions:
            raise UsageError("the agent has no other session of this directory")
        names = [f"{session_line(info)}  {mark}".rstrip() for info, mark in others[:MOST_OFFERED]]
        if len(others) > len(names):
            more = len(others) - len(names)
            say(f"  {more} more are not offered; `:sessions` lists all, `:resume ID` continues one\n")
        say("".join(f"  {number:>2}. {name}\n" for number, name in enumerate(names, 1)))
        async with self._editor.suspended():
            chosen = await Menu(self._reader, names, {}, {"q": "for none"}).choose()
        return [sessions[chosen]] if isinstance(chosen, int) else []


async def _stop_task(session: ClientSession, number: str) -> str:
    """Stop the background task with this number; without one, list those that have not ended. Return what to show.

    Raises:
        UsageError: No task has the number.
    """
    tasks = {str(number): task for number, task in enumerate(session.background_tasks, 1) if not task.is_over}
    if not number:
        lines = (f"  {key}. {escape_line(task.title or task.task_id)}\n" for key, task in tasks.items())
        return "".join(lines) or "no background task is running\n"
    if number not in tasks:
        raise UsageError(f"no running background task has the number {escape_line(number)}; `:stop` lists them")
    is_stopped = await session.stop_task(tasks[number].task_id)
    return "stopped\n" if is_stopped else "not stopped: the agent answers that it does not run, or goes on\n"
