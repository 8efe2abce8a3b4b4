"""`duologue sessions`: read and delete stored sessions of an agent, and recordings."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from duologue.cli.arguments import parse_key_values, sessions_here, with_titles
from duologue.cli.console.login_prompt import login_advice
from duologue.cli.console.safe_output import SafeOutput, safe
from duologue.cli.console.summaries import used_text
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.cli.recordings import known_recordings, named_recording, read
from duologue.cli.targets import lock_for, name_of, target_of, versions_for
from duologue.client.agent import RemoteAgent
from duologue.client.permissions.policy import Permissions
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
    cwd = _directory(arguments)
    is_one = arguments.action in ("show", "export", "delete")
    recording = named_recording(arguments.what) if is_one else None
    if recording is not None and arguments.action == "delete":
        recording.unlink()
        return ExitCode.OK
    if recording is not None:
        _show_recording(recording, out, arguments.json)
        return ExitCode.OK
    browser = _SessionBrowser(known_recordings(cwd), saved_usages(name_of(arguments)), out, arguments.json)
    if arguments.recordings:
        return await browser.run(None, [], arguments)
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
        except MethodNotFound:
            if not is_one:  # the recordings are there anyway
                await browser.run(None, [], arguments)
            raise
        known.sort(key=lambda info: info.updated_at or "", reverse=True)
        return await browser.run(agent, with_titles(known, arguments), arguments)


def _directory(arguments: argparse.Namespace) -> str | None:
    return str(Path(arguments.cwd).absolute()) if arguments.this_directory else None


class _SessionBrowser:
    """Sessions of an agent and recordings, shown as one list."""

    def __init__(
        self,
        recordings: dict[str, tuple[Path, SessionInfo]],
        usages: dict[str, SessionUsage],
        out: SafeOutput,
        as_json: bool,
    ) -> None:
        self._recordings = recordings
        self._usages = usages
        self._out = out
        self._as_json = as_json

    async def run(self, agent: RemoteAgent | None, known: list[SessionInfo], arguments: argparse.Namespace) -> ExitCode:
        known = [*known, *(info for _, info in self._recordings.values())]
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

    async def _delete(self, agent: RemoteAgent | None, chosen: list[SessionInfo]) -> ExitCode:
        """Delete sessions and recordings, and print the id of each that is gone."""
        code = ExitCode.OK
        for info in chosen:
            try:
                if info.session_id in self._recordings:
                    self._recordings[info.session_id][0].unlink(missing_ok=True)
                elif agent is not None:
                    await agent.delete_session(info.session_id)
            except MethodNotFound:
                raise
            except (RequestError, OSError) as error:
                code = ExitCode.AGENT_ERROR
                _complain("cannot delete", info, error)
            else:
                self._out.write(f"{escape_line(info.session_id)}\n")
        return code

    def _list(self, known: list[SessionInfo]) -> None:
        for info in known:
            if self._as_json:
                path = self._recordings.get(info.session_id, (None,))[0]
                of_file = {} if path is None else {"recording": str(path)}
                usage = self._usages.get(info.session_id)
                of_usage = {} if usage is None else {"usage": msgspec.to_builtins(usage)}
                self._out.write_json({**msgspec.to_builtins(info), **of_file, **of_usage})
            else:
                when = escape_line(info.updated_at or "")[:16].replace("T", " ")
                name, cwd, title = (escape_line(each or "") for each in (info.session_id, info.cwd, info.title))
                used = f"({text})" if (text := self._usage_text(info)) else ""
                self._out.write("  ".join(filter(None, [name, f"{when:<16}", cwd, title, used])).rstrip() + "\n")
        if not known and not self._as_json:
            sys.stderr.write("no sessions\n")

    def _usage_text(self, info: SessionInfo) -> str:
        usage = self._usages.get(info.session_id)
        return "" if usage is None else escape_line(usage.text)

    async def _search(self, agent: RemoteAgent | None, known: list[SessionInfo], text: str) -> ExitCode:
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

    async def _show(self, agent: RemoteAgent | None, info: SessionInfo) -> None:
        if info.session_id in self._recordings:
            _show_recording(self._recordings[info.session_id][0], self._out, self._as_json)
        else:
            items = [item async for item in self._items(agent, info)]
            _write(self._out, [(info, items, self._usages.get(info.session_id))], self._as_json)

    async def _items(self, agent: RemoteAgent | None, info: SessionInfo) -> AsyncIterator[Item]:
        if info.session_id in self._recordings:
            with contextlib.suppress(UsageError):  # skip an unreadable recording
                for _, recorded in read(self._recordings[info.session_id][0]):
                    for item in recorded.transcript.items:
                        yield item
        elif agent is not None:
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


def _show_recording(path: Path, out: SafeOutput, as_json: bool) -> None:
    sessions = read(path)
    if not sessions:
        raise UsageError(f"{path}: this recording contains no session")
    _write(out, [(info, recorded.transcript.items, recorded.usage) for info, recorded in sessions], as_json)


def _write(out: SafeOutput, sessions: list[tuple[SessionInfo, list[Item], SessionUsage | None]], as_json: bool) -> None:
    if not as_json:
        out.write("\n".join(markdown_of(info, items, usage) for info, items, usage in sessions))
        return
    for _, items, usage in sessions:
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
