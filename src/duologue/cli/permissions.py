"""What the flags and files of a command line permit, and a count of what was not permitted."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duologue.cli.exit_codes import UsageError
from duologue.cli.targets import name_of
from duologue.client.permissions.actions import KINDS
from duologue.client.permissions.policy import PermissionRequest, Permissions
from duologue.client.permissions.prompter import Handler
from duologue.config.permissions import rules_files, state_folder
from duologue.errors import InvalidRequest

__all__ = ["CountingPermissions", "permissions_for", "wants_to_ask"]

QUIET_KINDS = ("read", "search", "think")
"""What changes nothing."""


class CountingPermissions(Permissions):
    """Permissions that tell what was not permitted."""

    on_denied: Callable[[str], None]

    async def decide(self, question: PermissionRequest) -> str | None:
        """As always; a no is told, a question that died with its turn is not."""
        chosen = await super().decide(question)
        option = next((each for each in question.options if each.option_id == chosen), None)
        if option is None and not question.is_open and question.future.result().by == "cancelled":
            return chosen
        if option is None or not option.kind.startswith("allow"):
            self.on_denied(f"{question.title} ({question.tool.kind})")
        return chosen

    async def check_read(self, *args: Any, **options: Any) -> None:
        """As always; a no is told."""
        await self._told(super().check_read(*args, **options), "read", *args)

    async def check_write(self, *args: Any, **options: Any) -> None:
        """As always; a no is told."""
        await self._told(super().check_write(*args, **options), "write", *args)

    async def check_command(self, *args: Any, **options: Any) -> None:
        """As always; a no is told."""
        await self._told(super().check_command(*args, **options), "run", *args)

    async def _told(self, check: Any, verb: str, session_id: str, cwd: str, what: Any, *rest: Any) -> None:
        try:
            await check
        except InvalidRequest:
            self.on_denied(f"{verb} {what if isinstance(what, str) else ' '.join(what)}")
            raise


def wants_to_ask(arguments: argparse.Namespace, has_person: bool) -> bool:
    """Whether a person is asked about what no rule settles."""
    if arguments.ask and not has_person:
        raise UsageError("--ask needs a terminal to ask on; use --yes, --read-only, --deny or --rules instead")
    return has_person and not (arguments.yes or arguments.deny or arguments.read_only)


def permissions_for(
    arguments: argparse.Namespace, on_request: Handler | None, on_denied: Callable[[str], None]
) -> CountingPermissions:
    """Flags first, then files with rules, then whom to ask; without any of them, reading is all that is permitted.

    Raises:
        UsageError: A file with rules cannot be used.
    """
    words: dict[str, Any] | None = _words_of_flags(arguments)
    files = [*arguments.rules, *(rules_files() if words is None and not arguments.rules and not arguments.ask else [])]
    if words is None and not files:
        words = dict.fromkeys(QUIET_KINDS, "allow")
        if on_request is None:
            words |= {kind: "reject" for kind in KINDS if kind not in words}
    kept = {} if on_request is None else {"memory": state_folder() / "answers.jsonl"}
    try:
        permissions = CountingPermissions.from_file(*files, defaults=kept, on_request=on_request, **(words or {}))
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from None
    _warn_of_powerless(arguments)
    permissions.on_denied = on_denied
    # What is remembered for one agent counts for no other.
    return permissions.for_agent(name_of(arguments))


def _warn_of_powerless(arguments: argparse.Namespace) -> None:
    """Rules that an agent can write allow nothing; whoever wrote them would wonder why."""
    here = Path(arguments.cwd).resolve()
    for named in arguments.rules:
        if Path(named).expanduser().resolve().is_relative_to(here):
            sys.stderr.write(f"duologue: --rules {named}: inside {here}, where the agent works, rules allow nothing\n")


def _words_of_flags(arguments: argparse.Namespace) -> dict[str, Any] | None:
    if arguments.yes:
        return dict.fromkeys(KINDS, "allow")
    if arguments.deny:
        return dict.fromkeys(KINDS, "reject")
    if arguments.read_only:
        return {kind: "allow" if kind in QUIET_KINDS else "reject" for kind in KINDS}
    return None
