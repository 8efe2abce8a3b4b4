"""Say how what was denied can be allowed: by which option, or by which lines of a file of rules."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator

from duologue.cli.permissions import own_rules
from duologue.client.permissions.actions import Action, ActionContext

YES = "  --yes         all commands, and all changes inside the directory"
RULES = "  --rules FILE  only what the file lists, which has mode 0600 and is outside of the directory; for this:"
MOST_PATTERNS = 5
"""Patterns of one kind that are shown."""


def denial_advice(denied: Iterable[Action], arguments: argparse.Namespace) -> str:
    """Return what to do next, in lines; empty if no option and no rule can allow it.

    Args:
        denied: Actions that no user has rejected.
        arguments: The parsed command line.
    """
    actions = list(dict.fromkeys(denied))
    context = ActionContext.of("", arguments.cwd)
    is_inside = all(action.path is None or context.relative_path(action.path) is not None for action in actions)
    rules = list(_rules(actions, context))
    if not actions or (arguments.yes and is_inside):
        return ""
    if arguments.yes:
        return f"`--yes` covers only files inside {context.cwd}; `--cwd DIR` chooses another directory\n"
    flag = "--deny" if arguments.deny else "--read-only" if arguments.read_only else ""
    files = [] if flag else [*arguments.rules, *own_rules(arguments)]
    shown = [YES] if is_inside and not arguments.rules else []  # the strictest of the flag and the file would count
    if rules:
        shown += [f"  {files[0]}, with in addition" if files else RULES, *(f"    {line}" for line in rules)]
    instead = f"use instead of `{flag}`" if flag else "use"
    return "".join(f"{line}\n" for line in [f"to allow what was denied, {instead}", *shown]) if shown else ""


def _rules(actions: list[Action], context: ActionContext) -> Iterator[str]:
    """Yield the lines of a file of rules; nothing if there is an action that no rule can allow."""
    patterns: dict[str, list[str]] = {}
    for action in actions:
        pattern = _pattern(action, context)
        if pattern is None:
            return
        patterns.setdefault(action.kind, []).append(pattern)
    whole = [f'{kind} = "allow"' for kind, found in patterns.items() if "" in found]
    yield from ["[permissions]", *whole] if whole else []
    for kind, found in patterns.items():
        if "" not in found:
            yield f"[permissions.{kind}]"
            yield from (f'{json.dumps(pattern)} = "allow"' for pattern in found[:MOST_PATTERNS])
            if len(found) > MOST_PATTERNS:
                yield f"# and {len(found) - MOST_PATTERNS} more"


def _pattern(action: Action, context: ActionContext) -> str | None:
    """Return a pattern for one action; empty for all of its kind, None if there is none."""
    if action.command is not None:
        return action.command.line if action.command.words else None
    if action.path is None:
        return ""
    inside = context.relative_path(action.path)
    return action.path if inside is None else inside
