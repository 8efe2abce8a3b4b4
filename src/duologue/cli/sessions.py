"""`duologue sessions`: look into the sessions an agent keeps."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Generator, Iterator
from pathlib import Path
from typing import TextIO

import msgspec

from duologue.cli.codes import UsageError, code_of_error
from duologue.cli.opening import pairs
from duologue.cli.run import login_advice
from duologue.cli.targets import target_of
from duologue.client.connect import connect
from duologue.client.inert import inert
from duologue.client.permissions import Permissions
from duologue.client.remote import RemoteAgent
from duologue.client.session import ClientSession
from duologue.conversation.items import Item, Message, ToolCall
from duologue.conversation.setup import SessionInfo
from duologue.errors import AuthenticationRequired, DuologueError, MethodNotFound

__all__ = ["markdown_of", "sessions"]

SPEAKERS = {"user": "You", "agent": "Agent", "thought": "Thought"}


def sessions(arguments: argparse.Namespace) -> int:
    """List, show, search or export; the exit code."""
    try:
        with _output(arguments.output) as out:
            asyncio.run(_look(arguments, out))
    except (DuologueError, UsageError) as error:
        is_usage = isinstance(error, MethodNotFound)
        sys.stderr.write(f"duologue: {error}\n")
        return int(code_of_error(UsageError()) if is_usage else code_of_error(error))
    except KeyboardInterrupt:
        return 130
    return 0


@contextlib.contextmanager
def _output(path: str | None) -> Generator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    try:
        with Path(path).open("w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


async def _look(arguments: argparse.Namespace, out: TextIO) -> None:
    target = target_of(arguments)
    async with connect(target, permissions=Permissions(read="reject"), env=pairs(arguments.env, "--env")) as agent:
        if arguments.login is not None:
            await agent.login(arguments.login)
        try:
            known = await agent.sessions(cwd=arguments.cwd if arguments.here else None)
        except AuthenticationRequired as error:
            raise AuthenticationRequired(login_advice(agent, error)) from None
        known.sort(key=lambda info: info.updated_at or "", reverse=True)
        match arguments.action:
            case "list":
                _list(known, out, arguments.json)
            case "search":
                await _search(agent, known, arguments.what, out, arguments.json)
            case _:
                info = _chosen(known, arguments.what)
                async with _loaded(agent, info) as session:
                    as_json = arguments.json
                    out.write(_json_of(session) if as_json else markdown_of(info, session.transcript.items))


def _list(known: list[SessionInfo], out: TextIO, as_json: bool) -> None:
    for info in known:
        if as_json:
            out.write(msgspec.json.encode(info).decode() + "\n")
        else:
            when = (info.updated_at or "")[:16].replace("T", " ")
            out.write(
                f"{inert(info.session_id)}  {when:<16}  {inert(info.cwd)}  {inert(info.title or '')}".rstrip() + "\n"
            )
    if not known and not as_json:
        sys.stderr.write("no sessions\n")


async def _search(agent: RemoteAgent, known: list[SessionInfo], text: str, out: TextIO, as_json: bool) -> None:
    """Every line of every session that has the text in it, whatever the case."""
    for info in known:
        async with _loaded(agent, info) as session:
            for line in _lines_of(session.transcript.items):
                if text.casefold() not in line.casefold():
                    continue
                if as_json:
                    found = {"session_id": info.session_id, "title": info.title, "line": line}
                    out.write(msgspec.json.encode(found).decode() + "\n")
                else:
                    out.write(f"{inert(info.session_id)}: {inert(line.strip(), 500)}\n")


def _lines_of(items: list[Item]) -> Iterator[str]:
    for item in items:
        if isinstance(item, Message):
            yield from item.text.splitlines()
        elif isinstance(item, ToolCall):
            yield item.title


def _chosen(known: list[SessionInfo], wanted: str) -> SessionInfo:
    exact = [info for info in known if info.session_id == wanted]
    found = exact or [info for info in known if info.session_id.startswith(wanted)]
    if len(found) != 1:
        raise UsageError(f"{'no' if not found else 'more than one'} session is called {wanted!r}")
    return found[0]


@contextlib.asynccontextmanager
async def _loaded(agent: RemoteAgent, info: SessionInfo) -> AsyncGenerator[ClientSession]:
    session = await agent.load(info.session_id, info.cwd)
    async with session:
        yield session


def _json_of(session: ClientSession) -> str:
    lines = [{"item": type(item).__name__, **msgspec.to_builtins(item)} for item in session.transcript.items]
    return "".join(msgspec.json.encode(line).decode() + "\n" for line in lines)


def markdown_of(info: SessionInfo, items: list[Item]) -> str:
    """A session as a Markdown document."""
    parts = [f"# {info.title or info.session_id}\n", f"Session `{info.session_id}` in `{info.cwd}`\n"]
    for item in items:
        if isinstance(item, Message):
            parts.append(f"## {SPEAKERS[item.role]}\n\n{item.text.rstrip()}\n")
        elif isinstance(item, ToolCall):
            parts.append(f"- **{item.kind}**: {inert(item.title)} ({item.status})\n")
    return "\n".join(parts)
