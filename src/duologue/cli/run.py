"""`duologue run`: one turn with any agent, for people and for scripts."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from duologue.cli.asking import ask_on_terminal
from duologue.cli.codes import Code, code_of_stop
from duologue.cli.show import Shown, show_for
from duologue.cli.targets import target_of
from duologue.client.connect import connect
from duologue.client.permissions import Permissions, Question
from duologue.client.remote import RemoteAgent
from duologue.client.session import ClientSession
from duologue.client.terminals import Terminals
from duologue.client.turn import ClientTurn
from duologue.client.workspace import Workspace
from duologue.errors import AuthenticationRequired, DuologueError, ProtocolViolation
from duologue.events import Event

__all__ = ["permissions_for", "run"]


def run(arguments: argparse.Namespace) -> int:
    """One turn; the exit code says how it ended."""
    try:
        return int(asyncio.run(_Run(arguments).play()))
    except KeyboardInterrupt:
        return int(Code.INTERRUPTED)


class _Run:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._shown: Shown = _JsonLines() if arguments.json else show_for(sys.stdout, sys.stderr)
        self._was_denied = False
        self._has_spoken = False
        self._interrupts = 0

    async def play(self) -> Code:
        arguments = self._arguments
        try:
            async with asyncio.timeout(arguments.timeout):
                return await self._talk()
        except TimeoutError:
            return _fail(f"no end after {arguments.timeout:g} s", Code.TIMEOUT)
        except AuthenticationRequired as error:
            return _fail(f"the agent wants a login first: {error}", Code.LOGIN)
        except ProtocolViolation as error:
            return _fail(str(error), Code.PROTOCOL)
        except DuologueError as error:
            return _fail(str(error), Code.AGENT_ERROR)

    async def _talk(self) -> Code:
        arguments = self._arguments
        permissions = permissions_for(arguments, self._note_denials)
        async with connect(
            target_of(arguments),
            permissions=permissions,
            workspace=Workspace(arguments.cwd),
            terminals=Terminals(),
            env=dict(pair.split("=", 1) for pair in arguments.env),
        ) as agent:
            session = await self._session(agent)
            async with session:
                session.watch(self._watch)
                await self._settings(session)
                turn = session.prompt(_prompt_of(arguments), files=arguments.file, images=arguments.image)
                return await self._turn(session, turn)

    async def _session(self, agent: RemoteAgent) -> ClientSession:
        arguments = self._arguments
        wanted = arguments.session
        if wanted is None and arguments.continue_:
            known = await agent.sessions(cwd=arguments.cwd)
            wanted = known[0].session_id if known else None
        if wanted is None:
            return await agent.new(arguments.cwd)
        if agent.features.resume:
            return await agent.resume(wanted, arguments.cwd)
        return await agent.load(wanted, arguments.cwd)

    async def _settings(self, session: ClientSession) -> None:
        if self._arguments.mode is not None:
            await session.set_mode(self._arguments.mode)
        for pair in self._arguments.set:
            name, _, value = pair.partition("=")
            await session.set(name, value == "true" if value in ("true", "false") else value)

    async def _turn(self, session: ClientSession, turn: ClientTurn) -> Code:
        began = time.monotonic()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt, session)
        try:
            await turn
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
            self._shown.end()
        self._close(session, turn, time.monotonic() - began)
        code = code_of_stop(turn.stop_reason)
        if code is Code.ENDED and self._was_denied:
            return Code.DENIED
        return Code.NOTHING_SAID if code is Code.ENDED and not self._has_spoken else code

    def _interrupt(self, session: ClientSession) -> None:
        """Once cancels the turn, twice leaves."""
        self._interrupts += 1
        if self._interrupts > 1:
            sys.exit(int(Code.INTERRUPTED))
        sys.stderr.write("\ncancelling; once more to leave\n")
        session.agent.tasks.start(session.cancel())

    def _watch(self, event: Event) -> None:
        self._has_spoken = True
        self._shown.show(event)

    def _close(self, session: ClientSession, turn: ClientTurn, seconds: float) -> None:
        parts = [turn.stop_reason or "ended", f"{seconds:.1f} s"]
        if turn.tool_calls:
            parts.append(f"{len(turn.tool_calls)} tools")
        if turn.usage is not None:
            parts.append(f"{turn.usage.total} tokens")
        if session.usage is not None and session.usage.cost is not None:
            parts.append(f"{session.usage.cost:g} {session.usage.currency}")
        if self._arguments.json:
            sys.stdout.write(msgspec.json.encode({"stopReason": turn.stop_reason, "seconds": seconds}).decode() + "\n")
        elif sys.stderr.isatty():
            sys.stderr.write(f"\x1b[2m({', '.join(parts)})\x1b[0m\n")
        else:
            sys.stderr.write(f"({', '.join(parts)})\n")

    def _note_denials(self, ask: Callable[[Question], Awaitable[object]]) -> Callable[[Question], Awaitable[object]]:
        async def asked(question: Question) -> object:
            answer = await ask(question)
            return answer

        return asked


class _JsonLines:
    """One event per line, with the frame it came in."""

    def show(self, event: Event) -> None:
        fields = msgspec.to_builtins(event)
        raw = fields.pop("raw", None)
        line = {"event": type(event).__name__, **fields, "raw": msgspec.Raw(event.raw) if raw else None}
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        sys.stdout.flush()

    def end(self) -> None:
        sys.stdout.flush()


def permissions_for(
    arguments: argparse.Namespace,
    around: Callable[[Callable[[Question], Awaitable[object]]], Callable[[Question], Awaitable[object]]] | None = None,
) -> Permissions:
    """What the flags allow: `--yes` everything, `--reads` reading, `--deny` nothing, `--ask` what a person says."""
    kinds = ("read", "edit", "execute", "delete", "move", "search", "fetch", "think", "switch_mode", "other")
    if arguments.yes:
        return Permissions(**dict.fromkeys(kinds, "allow"))  # type: ignore[arg-type]
    if arguments.deny:
        return Permissions(**dict.fromkeys(kinds, "reject"))  # type: ignore[arg-type]
    quiet = {kind: "allow" if kind in ("read", "search", "think") else "reject" for kind in kinds}
    if arguments.reads or not (arguments.ask or sys.stdin.isatty()):
        return Permissions(**quiet)  # type: ignore[arg-type]
    ask = ask_on_terminal if around is None else around(ask_on_terminal)
    return Permissions(read="allow", search="allow", think="allow", on_ask=ask)


def _prompt_of(arguments: argparse.Namespace) -> str:
    if arguments.prompt_file == "-":
        return sys.stdin.read()
    if arguments.prompt_file is not None:
        return Path(arguments.prompt_file).read_text("utf-8")
    return str(arguments.prompt)


def _fail(reason: str, code: Code) -> Code:
    sys.stderr.write(f"duologue run: {reason}\n")
    return code
