"""The commands an agent runs through us: real processes that belong to a session and end with it."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from duologue.dialects.terms import TerminalExit, TerminalOutput
from duologue.errors import InvalidParams, InvalidRequest, ResourceNotFound, StartError
from duologue.local.commands import OUTPUT_LIMIT, Command

__all__ = ["Terminals"]

MAX_PER_SESSION = 32
"""More than any agent has a use for at once."""
HARD_CAP = 64 * 1024 * 1024
"""Bytes of output kept of one command, whatever an agent asks for."""


class Terminals:
    """Runs commands for agents."""

    def __init__(
        self,
        *,
        max_per_session: int = MAX_PER_SESSION,
        env: Mapping[str, str] | None = None,
        pty: bool = False,
        output_limit: int = OUTPUT_LIMIT,
        hard_cap: int = HARD_CAP,
    ) -> None:
        self._max_per_session = max_per_session
        self._env = dict(env or {})
        self._pty = pty
        self._output_limit = output_limit
        self._hard_cap = hard_cap
        self._sessions: dict[str, dict[str, Command | None]] = {}

    async def create(
        self,
        session_id: str,
        command: str,
        args: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        roots: Sequence[str],
        limit: int | None,
    ) -> str:
        """Start a command; the id of its terminal."""
        place = Path(os.path.realpath(cwd))
        if not place.is_dir() or not any(place.is_relative_to(os.path.realpath(root)) for root in roots):
            raise InvalidParams("cwd is not a directory the session may work in")
        own = self._sessions.setdefault(session_id, {})
        if len(own) >= self._max_per_session:
            raise InvalidRequest(f"{self._max_per_session} terminals are open already")
        terminal_id = f"term-{secrets.token_urlsafe(16)}"
        own[terminal_id] = None
        try:
            own[terminal_id] = await Command.start(
                [command, *args],
                cwd=place,
                env={**self._env, **env},
                output_limit=min(self._hard_cap, self._output_limit if limit is None else limit),
                pty=self._pty,
            )
        except StartError as error:
            raise InvalidParams(str(error)) from error
        finally:
            if own[terminal_id] is None:
                del own[terminal_id]
        return terminal_id

    def output(self, session_id: str, terminal_id: str) -> TerminalOutput:
        """What it has printed so far."""
        command = self._command(session_id, terminal_id)
        text, truncated = command.output()
        ended = command.exit
        status = None if ended is None else TerminalExit(exit_code=ended.exit_code, signal=ended.signal)
        return TerminalOutput(output=text, truncated=truncated, exit=status)

    async def wait(self, session_id: str, terminal_id: str) -> TerminalExit:
        """How it ended, once it has."""
        ended = await self._command(session_id, terminal_id).wait()
        return TerminalExit(exit_code=ended.exit_code, signal=ended.signal)

    async def kill(self, session_id: str, terminal_id: str) -> None:
        """End the command; its output stays."""
        await self._command(session_id, terminal_id).kill()

    async def release(self, session_id: str, terminal_id: str) -> None:
        """End the command and forget the terminal."""
        command = self._command(session_id, terminal_id)
        del self._sessions[session_id][terminal_id]
        await command.release()

    async def close_session(self, session_id: str) -> None:
        """End everything that runs for a session."""
        commands = self._sessions.pop(session_id, {}).values()
        await asyncio.gather(*(command.release() for command in commands if command is not None))

    async def aclose(self) -> None:
        """End everything."""
        await asyncio.gather(*(self.close_session(session_id) for session_id in list(self._sessions)))

    def _command(self, session_id: str, terminal_id: str) -> Command:
        command = self._sessions.get(session_id, {}).get(terminal_id)
        if command is None:
            raise ResourceNotFound("no such terminal")
        return command
