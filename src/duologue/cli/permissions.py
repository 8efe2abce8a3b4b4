"""Build the permission policy from the flags and rules files of a command line, and report what it denies."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duologue.cli.exit_codes import UsageError
from duologue.cli.targets import name_of
from duologue.client.permissions.actions import KINDS, Action
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.prompter import Handler
from duologue.client.permissions.remembered import TurnGrants
from duologue.client.permissions.request import PermissionDecision, PermissionRequest
from duologue.config.permissions import remembered_decisions_file, rules_files
from duologue.errors import InvalidRequest

QUIET_KINDS = ("read", "search", "think")
"""Kinds of tools that change nothing."""


class CountingPermissions(Permissions):
    """Permissions that report requests.

    Attributes:
        on_denied: Called with a description of what was denied.
        on_decision: Called with each request before it is decided.
        on_rejected: Called with the actions that were rejected, but not by the user.
    """

    on_denied: Callable[[str], None]
    on_decision: Callable[[PermissionRequest], None]
    on_rejected: Callable[[list[Action]], None]

    async def _decide(self, request: PermissionRequest, turn: TurnGrants) -> PermissionDecision:
        self.on_decision(request)
        decision = await super()._decide(request, turn)
        if not decision.is_allowed and decision.by not in ("user", "cancelled"):
            self.on_rejected(request.actions)
        return decision

    async def decide(self, request: PermissionRequest) -> str | None:
        """Decide a request, and report a denial; a request cancelled with its turn is not one."""
        chosen = await super().decide(request)
        option = next((each for each in request.options if each.option_id == chosen), None)
        if option is None and request.decision is not None and request.decision.by == "cancelled":
            return chosen
        if option is None or not option.kind.startswith("allow"):
            self.on_denied(_description(request))
        return chosen

    async def check_read(self, *args: Any, **options: Any) -> None:
        """Check a read, and report a denial."""
        await self._reported(super().check_read(*args, **options), "read", *args)

    async def check_write(self, *args: Any, **options: Any) -> None:
        """Check a write, and report a denial."""
        await self._reported(super().check_write(*args, **options), "write", *args)

    async def check_command(self, *args: Any, **options: Any) -> None:
        """Check a command, and report a denial."""
        await self._reported(super().check_command(*args, **options), "run", *args)

    async def _reported(self, check: Any, verb: str, session_id: str, cwd: str, what: Any, *rest: Any) -> None:
        try:
            await check
        except InvalidRequest:
            self.on_denied(f"{verb} {what if isinstance(what, str) else ' '.join(what)}")
            raise


def _description(request: PermissionRequest) -> str:
    """Return what was asked for: the files and commands, and the agent's title if that says something else."""
    named = "; ".join(line.replace(": ", " ", 1) for line in request.action_lines)
    return f"{named} ({request.title})" if request.title else named


def wants_to_ask(arguments: argparse.Namespace, has_user: bool) -> bool:
    """Return True if the user is asked about requests that no rule decides.

    Raises:
        UsageError: `--ask` was given, but there is no terminal to ask on.
    """
    if arguments.ask and not has_user:
        raise UsageError("--ask needs a terminal to ask on; use --yes, --read-only, --deny or --rules instead")
    return has_user and not (arguments.yes or arguments.deny or arguments.read_only)


def permissions_for(
    arguments: argparse.Namespace,
    on_request: Handler | None,
    on_denied: Callable[[str], None],
    on_decision: Callable[[PermissionRequest], None],
    on_rejected: Callable[[list[Action]], None],
) -> CountingPermissions:
    """Return the policy: flags first, then rules files, then the user; without any of them, only reading is allowed.

    Raises:
        UsageError: A rules file cannot be used.
    """
    rules: dict[str, Any] | None = _rules_of_flags(arguments)
    files = [*arguments.rules, *(own_rules(arguments) if rules is None else [])]
    if rules is None and not files:
        rules = dict.fromkeys(QUIET_KINDS, "allow")
        if on_request is None:
            rules |= {kind: "reject" for kind in KINDS if kind not in rules}
    defaults = {} if on_request is None else {"memory": remembered_decisions_file()}
    try:
        permissions = CountingPermissions.from_file(*files, defaults=defaults, on_request=on_request, **(rules or {}))
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from None
    _warn_of_ignored_rules(arguments)
    permissions.on_denied, permissions.on_decision, permissions.on_rejected = on_denied, on_decision, on_rejected
    # A decision remembered for one agent applies to no other.
    return permissions.for_agent(name_of(arguments))


def own_rules(arguments: argparse.Namespace) -> list[Path]:
    """Return the user's files of rules, if they apply: without `--rules` and `--ask`.

    Raises:
        UsageError: One cannot be used.
    """
    if arguments.rules or arguments.ask:
        return []
    try:
        return rules_files()
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from None


def _warn_of_ignored_rules(arguments: argparse.Namespace) -> None:
    """Warn about rules files that the agent could change: what they allow is ignored."""
    here = Path(arguments.cwd).resolve()
    for named in arguments.rules:
        if Path(named).expanduser().resolve().is_relative_to(here):
            sys.stderr.write(
                f"duologue: --rules {named}: the agent can write in {here}, so this file cannot allow anything\n"
            )


def _rules_of_flags(arguments: argparse.Namespace) -> dict[str, Any] | None:
    if arguments.yes:
        return dict.fromkeys(KINDS, "allow")
    if arguments.deny:
        return dict.fromkeys(KINDS, "reject")
    if arguments.read_only:
        return {kind: "allow" if kind in QUIET_KINDS else "reject" for kind in KINDS}
    return None
