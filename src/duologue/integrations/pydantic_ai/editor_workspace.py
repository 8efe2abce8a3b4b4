"""The editor as the workspace of a pydantic-ai agent: its files with unsaved changes, its terminals, its user."""

from __future__ import annotations

import asyncio
import errno
import math
import posixpath
import shlex
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Any

from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    SupportsCommands,
    SupportsFilesystem,
    SupportsRealpath,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from duologue.agent.turn import Turn
from duologue.conversation.updates import FileChange
from duologue.errors import ConnectionLost, RequestError, ResourceNotFound
from duologue.integrations.pydantic_ai.workspace_commands import Mode, WorkspaceCommands
from duologue.integrations.pydantic_ai.workspace_policy import (
    WorkspaceGate,
    WorkspacePolicy,
    WorkspaceRequest,
    ask_before_commands,
    is_sendable,
)
from duologue.integrations.pydantic_ai.workspace_tools import called_tool
from duologue.local.file_tree import FileTree, TreeEntry
from duologue.local.files import MAX_READ_BYTES
from duologue.protocol.values import PERMISSION_SECONDS

COMMAND_SECONDS = 3600.0
"""Seconds of a command for which the caller sets no timeout."""
MAX_CHANGE = 1024 * 1024
"""Characters of a text whose change is shown in the tool call."""

SEARCHES = ("grep", "list_files", "find_files", "search_files", "file_info")
"""Tools of pydantic-ai-harness that look at many files or run a command of their own, never one of the model."""


class EditorWorkspace(WorkspaceBackend, SupportsCommands, SupportsFilesystem, SupportsRealpath):
    """A workspace for a run of pydantic-ai: the files, terminals and permissions of the editor that sent the prompt.

    Pass it to the run: `acp_agent(agent, run_options=lambda turn: {"workspace": EditorWorkspace(turn)})`. Text is read
    and written through the editor, so that unsaved changes are seen and changes appear in it; commands run in its
    terminals, and end with the turn. What no editor offers (listings, bytes, removal) is done in the session's
    directories on this machine, and so is everything that the client has no capability for. Nothing outside the
    session's directories is read or written; commands are not confined.

    Args:
        turn: The turn that the run answers.
        policy: Decides what is allowed, rejected or asked. Default: ask before commands and removals.
        searches: Names of tools whose reads and commands are done on this machine, without the editor and its user. The
            commands must not be the model's. Default: the searches of pydantic-ai-harness.
        shows_changes: Show each change of a file in the tool call that makes it.
        command_timeout: Seconds of a command for which the caller sets no timeout.
        request_timeout: Seconds that the editor has to answer a request, in which it may ask its user.
    """

    def __init__(
        self,
        turn: Turn[Any],
        *,
        policy: WorkspacePolicy = ask_before_commands,
        searches: Collection[str] = SEARCHES,
        shows_changes: bool = True,
        command_timeout: float = COMMAND_SECONDS,
        request_timeout: float = PERMISSION_SECONDS,
    ) -> None:
        self._turn = turn
        self._gate = WorkspaceGate(turn, policy)
        self._commands = WorkspaceCommands(turn, request_timeout)
        self._searches = frozenset(searches)
        self._shows_changes = shows_changes
        self._command_timeout = _checked_timeout(command_timeout)
        self._request_timeout = _checked_timeout(request_timeout)
        self._ref = WorkspaceRef(provider="acp", id=posixpath.normpath(turn.session.setup.cwd))

    @property
    def ref(self) -> WorkspaceRef:
        """The session's directory, which identifies the workspace from one turn to the next."""
        return self._ref

    async def working_dir(self) -> str:
        """Return the session's directory, without links.

        Raises:
            WorkspaceUnavailableError: It is gone, or the turn is over.
        """
        tree, cwd = self._open_tree(), self._turn.session.setup.cwd
        if not await asyncio.to_thread(tree.is_current, cwd):
            raise WorkspaceUnavailableError(f"the directory of the session, {cwd!r}, no longer exists")
        return await asyncio.to_thread(tree.real_path, cwd)

    # --- commands

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Run a command in the session's directory, and return its output.

        In a tool of kind `execute`, the editor shows the output live, and stdout and stderr are one text. In one of
        `searches`, the command is a child process that the editor does not see. In any other, or outside of a tool,
        stdout and stderr are apart and exact, and the editor shows the end of them afterwards.

        Args:
            command: The program and its arguments, or a line for the shell.
            shell: Whether it is a line for the shell.
            env: Variables in addition to those of the terminal.
            timeout: Seconds after which it is killed. Default: `command_timeout`.

        Raises:
            PermissionRejected: The policy or the user rejected it.
            WorkspaceTimeoutError: It was killed after the timeout.
            WorkspaceOutputLimitError: It printed more than is kept.
            WorkspaceError: The editor did not start it.
        """
        if isinstance(command, str) != shell:
            raise TypeError("a command is a string with `shell=True`, or a sequence of strings without it")
        seconds = self._command_timeout if timeout is None else _checked_timeout(timeout)
        cwd, (tool_name, kind) = await self.working_dir(), called_tool()
        line = _in_directory(command, cwd) if isinstance(command, str) else shlex.join(command)
        argv = ["sh", "-c", line] if isinstance(command, str) else list(command)
        if not argv:
            raise ValueError("the command is empty")
        mode: Mode = "hidden" if tool_name in self._searches else "live" if kind == "execute" else "captured"
        with self._commands.prepare(argv, mode) as prepared:
            if prepared.is_hidden:
                result = await self._commands.run(prepared, env=env or {}, timeout=seconds, tool=None)
            else:
                request = WorkspaceRequest(operation="run", command=line)
                async with self._gate.operation(request, argv=prepared.argv) as tool:
                    result = await self._commands.run(prepared, env=env or {}, timeout=seconds, tool=tool)
        await self.working_dir()
        return result

    # --- files

    async def read_bytes(self, path: str) -> bytes:
        """Return the content of a file: a text as it is in the editor, with unsaved changes."""
        tree = self._open_tree()
        real = await asyncio.to_thread(tree.real_path, path)
        async with self._gate.operation(WorkspaceRequest(operation="read", path=real)):
            return await self._read(tree, path, real)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Replace the content of a file, a text through the editor; make missing directories."""
        tree = self._open_tree()
        real = await asyncio.to_thread(tree.real_path, path)
        text = _as_text(data)
        change = await self._change(tree, real, text) if self._shows_changes else None
        request = WorkspaceRequest(operation="write", path=real)
        async with self._gate.operation(request, change=change):
            if text is None or not self._turn.client_capabilities.writes_files or not is_sendable(real):
                await asyncio.to_thread(tree.write_bytes, path, data)
                return
            await asyncio.to_thread(tree.prepare_write, path)
            async with self._client("write", path):
                await self._turn.files.write(self._client_path(tree, real), text)

    async def stat(self, path: str) -> FileEntry:
        """Return what is known about a file or directory on disk."""
        entry = await asyncio.to_thread(self._open_tree().stat, path)
        return _file_entry(entry, path)

    async def list_dir(self, path: str) -> list[FileEntry]:
        """Return the entries of a directory, sorted by name."""
        entries = await asyncio.to_thread(self._open_tree().entries, path)
        return [_file_entry(entry, posixpath.join(path, entry.name)) for entry in entries]

    async def make_dir(self, path: str) -> None:
        """Make a directory and its missing parents."""
        tree = self._open_tree()
        real = await asyncio.to_thread(tree.real_path, path)
        async with self._gate.operation(WorkspaceRequest(operation="write", path=real)):
            await asyncio.to_thread(tree.make_directory, path)

    async def remove(self, path: str) -> None:
        """Remove a file, or a directory with all it contains; a link is removed itself.

        Raises:
            ValueError: It is a directory of the session, or contains one.
        """
        tree = self._open_tree()
        await asyncio.to_thread(tree.check_removable, path)
        request = WorkspaceRequest(operation="remove", path=posixpath.normpath(path))
        async with self._gate.operation(request):
            await asyncio.to_thread(tree.remove, path)

    async def exists(self, path: str) -> bool:
        """Return True if the path leads to a file or directory inside the session's directories."""
        return await asyncio.to_thread(self._open_tree().exists, path)

    async def realpath(self, path: str) -> str:
        """Return the path without links, `.` and `..`; what does not exist is kept."""
        return await asyncio.to_thread(self._open_tree().real_path, path)

    # --- the editor and this machine

    def _open_tree(self) -> FileTree:
        """Return the session's directories on this machine.

        Raises:
            WorkspaceUnavailableError: The turn is over.
        """
        if self._turn._is_over:
            raise WorkspaceUnavailableError("the turn of this workspace is over; make one for each turn")
        return FileTree(self._turn.files._roots)

    async def _read(self, tree: FileTree, path: str, real: str) -> bytes:
        try:
            data = await asyncio.to_thread(tree.read_bytes, path)
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise WorkspaceError(f"{path!r} is {error.strerror}; read parts of it with a command") from error
            raise
        is_text = _as_text(data) is not None and is_sendable(real)
        if not is_text or not self._turn.client_capabilities.reads_files or called_tool()[0] in self._searches:
            return data
        async with self._client("read", path):
            text = await self._turn.files.read(self._client_path(tree, real))
        return text.encode("utf-8", "surrogatepass")

    async def _change(self, tree: FileTree, real: str, text: str | None) -> FileChange | None:
        """Return the change of a text, if it is one that can be shown."""
        if text is None or len(text) > MAX_CHANGE or not is_sendable(real):
            return None
        try:
            before = _as_text(await self._read(tree, real, real))
        except FileNotFoundError:
            return FileChange(real, None, text)
        except (OSError, WorkspaceError):
            return None  # writing it fails too, and says why
        return None if before is None or before == text or len(before) > MAX_CHANGE else FileChange(real, before, text)

    def _client_path(self, tree: FileTree, real: str) -> str:
        """Return the path as the editor spells it: a link in the path of a directory of the session stays a link."""
        for root in sorted(self._turn.session.setup.roots, key=len, reverse=True):
            base = tree.real_path(root)
            if PurePosixPath(real).is_relative_to(base):
                return str(PurePosixPath(root) / PurePosixPath(real).relative_to(base))
        return real

    @asynccontextmanager
    async def _client(self, verb: str, path: str) -> AsyncGenerator[None]:
        """Wait for the editor no longer than the limit, and raise what the library expects of a workspace."""
        try:
            async with asyncio.timeout(self._request_timeout):
                yield
        except TimeoutError as error:
            limit = f"{self._request_timeout:g} s"
            raise WorkspaceTimeoutError(f"the editor did not {verb} {path!r} within {limit}") from error
        except ResourceNotFound as error:
            raise FileNotFoundError(errno.ENOENT, error.message, path) from error
        except RequestError as error:
            raise WorkspaceError(f"the editor did not {verb} {path!r}: {error.message}") from error
        except ConnectionLost as error:
            raise WorkspaceUnavailableError("the editor has disconnected") from error


def _checked_timeout(seconds: float) -> float:
    if not math.isfinite(seconds) or seconds <= 0:
        raise ValueError(f"a timeout must be a positive number of seconds, got {seconds!r}")
    return seconds


def _in_directory(line: str, cwd: str) -> str:
    """Return a line without the change to the directory in which it starts anyway, which tools put before it."""
    return line.removeprefix(f"cd {shlex.quote(cwd)} || exit\n")


def _as_text(data: bytes) -> str | None:
    """Return the text; None for what is not UTF-8, or too long to send to an editor."""
    if b"\0" in data or len(data) > MAX_READ_BYTES // 2:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _file_entry(entry: TreeEntry, path: str) -> FileEntry:
    return FileEntry(name=entry.name, path=path, is_dir=entry.is_directory, size=entry.size)
