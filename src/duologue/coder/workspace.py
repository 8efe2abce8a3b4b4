"""The files and commands that the tools get: each change passes the mode, the policy and the copies for `/undo`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from pydantic_ai.workspaces import CommandResult, FileEntry, Workspace, WorkspaceCommand, WrapperWorkspace

from duologue.client.permissions.sensitive_paths import CONFIDENTIAL, is_secret_path
from duologue.coder.policy import TurnPolicy
from duologue.coder.undo import TurnCopies, read_or_none
from duologue.integrations.pydantic_ai.current_tool import current_tool
from duologue.integrations.pydantic_ai.editor_workspace import SEARCHES
from duologue.integrations.pydantic_ai.workspace_policy import PermissionRejected

COMMAND_TOOL = "run_command"

MOST_SHOWN = 1_000_000
"""Bytes of a file whose change is shown as a diff."""

SECRET_PATTERNS = [f"**/{name}**" if name.endswith("/") else f"**/{name}" for name in CONFIDENTIAL.split()]
"""Globs of files that probably contain secrets, for the searches, which do not read file by file."""


class GuardedWorkspace(WrapperWorkspace):
    """A workspace in which a change happens only after the user's rules, or the user, allow exactly this change.

    Args:
        wrapped: The files, of an editor or of this machine.
        commands: Runs the commands, perhaps in a sandbox.
        policy: Decides each change.
        copies: Keeps what a changed file was before.
    """

    def __init__(self, wrapped: Workspace, commands: Workspace, policy: TurnPolicy, copies: TurnCopies) -> None:
        super().__init__(wrapped)
        self._commands = commands
        self._policy = policy
        self._copies = copies

    async def read_bytes(self, path: str) -> bytes:
        await self._check_secret(path)
        return await super().read_bytes(path)

    async def stat(self, path: str) -> FileEntry:
        try:
            await self._check_secret(path)
            return await super().stat(path)
        except OSError as error:  # for the library, which looks for instructions: there are none that it may read
            raise FileNotFoundError(str(error)) from None

    async def write_bytes(self, path: str, data: bytes) -> None:
        path = await self.resolve(path)
        await self._check_secret(path)
        before = await read_or_none(self.wrapped, path)
        if before == data:
            return
        await self._show(path, before, data)
        await self._policy.check_write(path)
        if await read_or_none(self.wrapped, path) != before:
            raise PermissionRejected("the file changed while the user was asked; read it again")
        self._copies.record(path, before, data)
        await super().write_bytes(path, data)

    async def make_dir(self, path: str) -> None:
        self._policy.check_mode()
        await super().make_dir(path)

    async def remove(self, path: str) -> None:
        raise PermissionRejected("files are not removed by this tool; run a command for it")

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        tool = current_tool()
        if tool is not None and tool.name in SEARCHES:  # a command of the tool, not of the model
            return await super().run(command, shell=shell, env=env, timeout=timeout)
        if isinstance(command, str):
            # The editor compares what it runs with what the user allowed, so nothing is put around the command.
            command = command.removeprefix(f"cd {shlex.quote(await self.working_dir())} || exit\n")
        await self._policy.check_command(command if isinstance(command, str) else shlex.join(command))
        if tool is not None:
            await tool.update(status="in_progress")
        return await self._commands.run(command, shell=shell, env=env, timeout=timeout)

    async def _check_secret(self, path: str) -> None:
        written = await self.resolve(path)
        root = f"{await self.working_dir()}/"
        names = {written, await self.realpath(written)}
        if any(is_secret_path(each.removeprefix(root)) for each in names):
            raise PermissionRejected("the name of this file suggests secrets, so it is neither read nor written")

    async def _show(self, path: str, before: bytes | None, data: bytes) -> None:
        """Show the change in the tool call that makes it, before the user is asked."""
        tool = current_tool()
        if tool is None or max(len(before or b""), len(data)) > MOST_SHOWN:
            return
        try:
            old, new = None if before is None else before.decode(), data.decode()
        except UnicodeDecodeError:
            return
        await tool.diff(path, old, new, status="pending")
