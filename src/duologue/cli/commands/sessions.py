"""`duologue sessions`: read and delete the sessions that an agent has stored."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shlex
import sys
from collections.abc import AsyncIterator, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from duologue.cli.arguments import parse_key_values, runs_last, sessions_here, with_titles
from duologue.cli.console.login_prompt import login_advice
from duologue.cli.console.safe_output import SafeOutput, safe
from duologue.cli.console.summaries import used_text
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.cli.targets import lock_for, name_of, target_of, versions_for
from duologue.client.agent import RemoteAgent
from duologue.client.permissions.policy import Permissions
from duologue.config.recordings import SUFFIX, named_recording
from duologue.config.sessions import saved_usages
from duologue.conversation.items import Item, Message, ToolCall
from duologue.conversation.session_setup import SessionInfo
from duologue.errors import AuthenticationRequired, MethodNotFound, ProtocolViolation, RequestError
from duologue.named_agents import connect
from duologue.sanitize import escape_line
from duologue.usage.amounts import SessionUsage

SPEAKERS = {"user": "You", "agent": "Agent", "thought": "Thought"}


def sessions(arguments: argparse.Namespace) -> int:
    """List, show, search, export or delete sessions; return the exit code."""
    try:
        with _output(arguments.output) as out:
            return asyncio.run(_run(arguments, out))
    except MethodNotFound as error:
        raise UsageError(str(error)) from None


@contextlib.contextmanager
def _output(path: str | None) -> Generator[SafeOutput]:
    if path is None:
        yield safe(sys.stdout, is_exact=True)
        return
    try:
        with Path(path).open("w", encoding="utf-8") as file:
            yield SafeOutput(file, is_exact=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


async def _run(arguments: argparse.Namespace, out: SafeOutput) -> ExitCode:
    _refuse_recordings(arguments)
    cwd = _directory(arguments)
    browser = _SessionBrowser(saved_usages(name_of(arguments)), out, arguments.json)
    target = target_of(arguments)
    async with connect(
        target,
        permissions=Permissions(read="reject"),
        env=parse_key_values(arguments.env, "--env"),
        lock=lock_for(target, arguments),
        protocol_versions=versions_for(arguments),
        dialect=arguments.dialect,
    ) as agent:
        if arguments.login is not None:
            await agent.login(arguments.login)
        try:
            known = await (agent.list_sessions() if cwd is None else sessions_here(agent, cwd))
        except AuthenticationRequired as error:
            raise AuthenticationRequired(login_advice(agent, error)) from None
        marked = runs_last(known, arguments)
        browser.marks = {info.session_id: mark for info, mark in marked}
        if arguments.json:  # newest first, for scripts
            known.sort(key=lambda info: info.updated_at or "", reverse=True)
            return await browser.run(agent, with_titles(known, arguments), arguments)
        return await browser.run(agent, [info for info, _ in marked], arguments)


def _refuse_recordings(arguments: argparse.Namespace) -> None:
    """Name the command that does with a recording what is asked for here.

    Raises:
        UsageError: A recording is meant.
    """
    action, wanted = arguments.action, arguments.what or ""
    if arguments.recordings:
        options = {"search": shlex.quote(wanted), "prune": f"--older-than {arguments.older_than or 0:g}"}
        line = f"duologue trace {action} {options.get(action, wanted)}".strip()
        raise UsageError(f"recordings are read by `duologue trace`: `{line}`")
    if action not in ("show", "export", "delete"):
        return
    with contextlib.suppress(ValueError):  # names of several recordings begin so, and an id of a session may, too
        path = named_recording(wanted)
        if path.suffix == SUFFIX and path.is_file():
            raise UsageError(f"{wanted} is a recording: `duologue trace {action} {shlex.quote(wanted)}`")


def _directory(arguments: argparse.Namespace) -> str | None:
    return str(Path(arguments.cwd).absolute()) if arguments.this_directory else None


class _SessionBrowser:
    """Shows and deletes the sessions of an agent.

    Attributes:
        marks: What follows the title of a session, by its id.
    """

    def __init__(self, usages: dict[str, SessionUsage], out: SafeOutput, as_json: bool) -> None:
        self._usages = usages
        self._out = out
        self._as_json = as_json
        self.marks: dict[str, str] = {}

    async def run(self, agent: RemoteAgent, known: list[SessionInfo], arguments: argparse.Namespace) -> ExitCode:
        match arguments.action:
            case "list":
                self._list(known)
            case "search":
                return await self._search(agent, known, arguments.what)
            case "delete":
                return await self._delete(agent, [_chosen(known, arguments.what)])
            case "prune":
                old = [info for info in known if _is_older(info, arguments.older_than)]
                if not arguments.dry_run:
                    return await self._delete(agent, old)
                self._list(old)
            case _:
                await self._show(agent, _chosen(known, arguments.what))
        return ExitCode.OK

    async def _delete(self, agent: RemoteAgent, chosen: list[SessionInfo]) -> ExitCode:
        """Delete sessions, and print the id of each that is gone."""
        code = ExitCode.OK
        for info in chosen:
            try:
                await agent.delete_session(info.session_id)
            except MethodNotFound:
                raise
            except RequestError as error:
                code = ExitCode.AGENT_ERROR
                _complain("cannot delete", info, error)
            else:
                self._out.write(f"{escape_line(info.session_id)}\n")
        return code

    def _list(self, known: list[SessionInfo]) -> None:
        for info in known:
            if self._as_json:
                usage = self._usages.get(info.session_id)
                of_usage = {} if usage is None else {"usage": msgspec.to_builtins(usage)}
                self._out.write_json({**msgspec.to_builtins(info), **of_usage})
            else:
                when = escape_line(info.updated_at or "")[:16].replace("T", " ")
                name, cwd, title = (escape_line(each or "") for each in (info.session_id, info.cwd, info.title))
                used = f"({text})" if (text := self._usage_text(info)) else ""
                parts = [name, f"{when:<16}", cwd, title, self.marks.get(info.session_id, ""), used]
                self._out.write("  ".join(filter(None, parts)).rstrip() + "\n")
        if not known and not self._as_json:
            sys.stderr.write("no sessions\n")

    def _usage_text(self, info: SessionInfo) -> str:
        usage = self._usages.get(info.session_id)
        return "" if usage is None else escape_line(usage.text)

    async def _search(self, agent: RemoteAgent, known: list[SessionInfo], text: str) -> ExitCode:
        """Print every line of every session that contains the text, ignoring case."""
        has_hit = False
        for info in known:
            try:
                items = [item async for item in self._items(agent, info)]
            except (RequestError, ProtocolViolation) as error:
                _complain("skipped", info, error)
                continue
            for line in (line for item in items for line in _lines_of(item)):
                if text.casefold() in line.casefold():
                    has_hit = True
                    self._found(info, line)
        return ExitCode.OK if has_hit else ExitCode.AGENT_ERROR

    def _found(self, info: SessionInfo, line: str) -> None:
        if self._as_json:
            found = {"session_id": info.session_id, "title": info.title, "line": line}
            self._out.write_json(found)
        else:
            self._out.write(f"{escape_line(info.session_id)}: {escape_line(line.strip(), 500)}\n")

    async def _show(self, agent: RemoteAgent, info: SessionInfo) -> None:
        items = [item async for item in self._items(agent, info)]
        _write(self._out, info, items, self._usages.get(info.session_id), self._as_json)

    async def _items(self, agent: RemoteAgent, info: SessionInfo) -> AsyncIterator[Item]:
        async with await agent.load_session(info.session_id, info.cwd) as session:
            for item in session.transcript.items:
                yield item


def _complain(what: str, info: SessionInfo, error: Exception) -> None:
    sys.stderr.write(f"duologue: {what} session {escape_line(info.session_id)}: {escape_line(str(error), 500)}\n")


def _is_older(info: SessionInfo, days: float) -> bool:
    """Return True if a session was last changed before so many days; False if that is not known."""
    try:
        changed = datetime.fromisoformat(info.updated_at or "")
    except ValueError:
        return False
    changed = changed if changed.tzinfo is not None else changed.replace(tzinfo=UTC)
    return changed < datetime.now(UTC) - timedelta(days=days)


def _write(out: SafeOutput, info: SessionInfo, items: list[Item], usage: SessionUsage | None, as_json: bool) -> None:
    if not as_json:
        out.write(markdown_of(info, items, usage))
        return
    for item in [*items, usage] if usage is not None and usage.text else items:
        out.write_json({"item": type(item).__name__, **msgspec.to_builtins(item)})


def _lines_of(item: Item) -> list[str]:
    if isinstance(item, Message):
        return item.text.splitlines()
    return [item.title] if isinstance(item, ToolCall) else []


def _chosen(known: list[SessionInfo], wanted: str) -> SessionInfo:
    exact = [info for info in known if info.session_id == wanted]
    found = exact or [info for info in known if info.session_id.startswith(wanted)]
    if len(found) != 1:
        raise UsageError(f"{'no' if not found else 'more than one'} session id begins with {wanted!r}")
    return found[0]


def markdown_of(info: SessionInfo, items: list[Item], usage: SessionUsage | None = None) -> str:
    """Return a session as a Markdown document."""
    parts = [f"# {info.title or info.session_id}\n", f"Session `{info.session_id}` in `{info.cwd}`\n"]
    if usage is not None and usage.text:
        parts.append(f"Used: {escape_line(used_text(usage))}\n")
    for item in items:
        if isinstance(item, Message):
            parts.append(f"## {SPEAKERS[item.role]}\n\n{item.text.rstrip()}\n")
        elif isinstance(item, ToolCall):
            parts.append(f"- **{item.kind}**: {escape_line(item.title)} ({item.status})\n")
    return "\n".join(parts)
