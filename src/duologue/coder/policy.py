"""The permission policy of a turn: rules of the mode first, then remembered decisions, then the user."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duologue.agent.turn import Turn
from duologue.client.permissions.command_line import argv_of
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.coder.modes import EDIT_RULES, READING_MODES
from duologue.errors import InvalidRequest
from duologue.integrations.approval import approval_options
from duologue.integrations.pydantic_ai.current_tool import current_tool
from duologue.integrations.pydantic_ai.workspace_policy import PermissionRejected
from duologue.protocol.values import PermissionOption


@dataclass
class TurnPolicy:
    """Decides the writes and commands of one turn; the user may change the mode meanwhile.

    Args:
        turn: The turn.
        rules: Files with the user's rules, for the mode `auto`.
        memory: File of the decisions that are remembered for a directory.
    """

    turn: Turn[Any]
    rules: list[Path]
    memory: Path | None
    _permissions: dict[str, Permissions] = field(default_factory=dict[str, Permissions])

    def check_mode(self) -> None:
        """Check that the mode allows changes.

        Raises:
            PermissionRejected: It does not.
        """
        if self.turn.settings.mode in READING_MODES:
            raise PermissionRejected("the mode allows reading only; the user can choose another one")

    async def check_write(self, path: str) -> None:
        """Check that a file may be written.

        Raises:
            PermissionRejected: It may not.
        """
        session, setup = self.turn.session.id, self.turn.session.setup
        await self._check(lambda rules: rules.check_write(session, setup.cwd, path, roots=setup.roots))

    async def check_command(self, command: str) -> None:
        """Check that a command line may run in the session's directory.

        Raises:
            PermissionRejected: It may not.
        """
        session, setup = self.turn.session.id, self.turn.session.setup
        cwd = await asyncio.to_thread(os.path.realpath, self.turn.cwd)
        argv = argv_of(command, [])
        await self._check(lambda rules: rules.check_command(session, setup.cwd, argv, cwd, roots=setup.roots))

    async def _check(self, check: Callable[[Permissions], Awaitable[None]]) -> None:
        self.check_mode()
        try:
            await check(self._current)
        except InvalidRequest:
            raise PermissionRejected("the user did not permit this") from None
        self.check_mode()  # the user may have chosen another one instead of an answer

    @property
    def _current(self) -> Permissions:
        mode = self.turn.settings.mode
        if mode not in self._permissions:
            options: dict[str, Any] = {"on_request": self._ask} | ({"memory": self.memory} if self.memory else {})
            has_rules = mode == "auto" and self.rules
            made = Permissions.from_file(*self.rules, **options) if has_rules else Permissions(**EDIT_RULES, **options)
            self._permissions[mode] = made.for_agent("duologue code")
        return self._permissions[mode]

    async def _ask(self, request: PermissionRequest) -> None:
        """Send a request to the client, in the tool call that needs it; "always" counts for this directory."""
        tool = current_tool()
        if tool is None:
            request.reject()
            return
        what = f"`{request.command}`" if request.command else ", ".join(request.paths)
        options = approval_options(f"{what} in this directory")
        wider = request.offered_rules[1:]  # the first is the command itself
        patterns = {f"allow_rule_{number}": rule for number, rule in enumerate(wider)}
        options[2:2] = [
            PermissionOption(option_id=key, name=f"Always allow `{rule}` in this directory", kind="allow_always")
            for key, rule in patterns.items()
        ]
        chosen = await tool.request_permission_option(options=options, remember_as=f"code: {what}")
        if chosen is None or chosen.kind.startswith("reject"):
            request.reject(remember="project" if chosen and chosen.kind == "reject_always" else None)
        elif chosen.kind == "allow_once":
            request.allow()
        else:
            request.allow(remember="project", rule=patterns.get(chosen.option_id))
