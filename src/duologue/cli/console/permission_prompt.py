"""Ask for permission on a plain terminal: everything that would be allowed, then numbered answers.

Lines are wrapped here and not by the terminal: continued text of the agent starts behind a bar, so that it cannot look
like a line of ours. Each answer begins with our own name for its kind, whatever the agent calls it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from duologue.cli.console.line_reader import LineReader, choose
from duologue.cli.console.renderer import Output
from duologue.cli.console.safe_output import say
from duologue.client.permissions.request import REJECTING, PermissionRequest, Scope
from duologue.protocol.values import PermissionOption
from duologue.sanitize import escape_line

REMEMBERED: dict[str, Scope] = {"in this session": "session", "in this directory": "project"}
"""Scopes in which an approval can be remembered, in addition to the agent's own options."""
KINDS = {
    "allow_once": ("Allow once", ("allow", "allow once")),
    "allow_always": ("Allow always; the agent decides what it asks about again", ("allow always", "always allow")),
    "reject_once": ("Reject", ("reject", "reject once")),
    "reject_always": ("Reject always", ("reject always", "always reject")),
}
"""Our name for each kind of option, and names given by agents that mean the same."""
OURS = {
    "allow_always": "Allow, and do not ask about this again in this session",
    "reject_always": "Reject, and do not ask about this again in this session",
}
"""Names of our own options, for actions that the client asks about without a request from the agent."""
MOST_OPTIONS = 20
"""Options of the agent that are shown; further ones cannot be chosen here."""
WIDTH = 80

Answer: TypeAlias = tuple[str, Callable[[], bool]]


class PermissionPrompt:
    """Asks for permission on a terminal.

    Args:
        reader: Reads the user's answer.
        shown: Output that shows the changes a request is about.
    """

    def __init__(self, reader: LineReader, shown: Output) -> None:
        self._reader = reader
        self._shown = shown

    async def __call__(self, request: PermissionRequest) -> None:
        """Ask the user; any input that is not one of the answers rejects the request."""
        self._shown.pause()
        self._shown.asked(request.tool)
        answers, width = answers_to(request), terminal_width()
        say("\n".join(describe_request(request, width)) + "\n")
        for number, (name, _) in enumerate(answers, 1):
            say("\n".join(wrapped(f"  {number}. ", name, width)) + "\n")
        chosen = await choose(self._reader, len(answers), "to reject")
        if chosen is None:
            request.reject()
        else:
            answers[chosen][1]()


def answers_to(request: PermissionRequest) -> list[Answer]:
    """Return the possible answers: the agent's own options, then those that are remembered here.

    A request that cannot be shown completely can only be rejected.
    """
    options = [each for each in request.usable_options if request.is_shown_whole or each.kind in REJECTING]
    answers: list[Answer] = [
        (
            _name_of(option) if request.raw else OURS.get(option.kind, option.name),
            partial(request.choose, option.option_id),
        )
        for option in options[:MOST_OPTIONS]
    ]
    if request.option_of_kind("allow_once") is not None and request.raw and request.can_be_remembered:
        for where, scope in REMEMBERED.items():
            answers.append((f"Allow, and do not ask about this again {where}", partial(_remember, request, scope)))
        answers += [
            (f"Allow `{escape_line(rule, None)}` in this session", partial(_remember, request, "session", rule))
            for rule in request.offered_rules
            if rule != request.command  # already in the list
        ]
    return answers


def _name_of(option: PermissionOption) -> str:
    """Return our name for the kind of option, then the agent's name."""
    unknown = f"Unknown kind of answer {_short(option.kind)}, which may allow it"
    kind, usual = KINDS.get(option.kind, (unknown, ()))
    name = " ".join(option.name.split())
    return kind if name.casefold() in usual else f"{kind} (the agent calls it: {_short(name)})"


def _short(text: str) -> str:
    return f'"{escape_line(text, 40)}"'


def _remember(request: PermissionRequest, scope: Scope, rule: str | None = None) -> bool:
    return request.allow(remember=scope, rule=rule)


def describe_request(request: PermissionRequest, width: int = WIDTH) -> list[str]:
    """Describe a request line by line: the agent's title, every effect, shown content, and notes."""
    actions, details, remainder = request.action_lines, request.details, request.extra
    lines = ["", *wrapped("The agent asks to: ", request.title or escape_line(request.tool.kind), width)]
    lines += [f"  actions ({len(actions)}):", *(line for act in actions for line in wrapped("    ", act, width))]
    if details:
        lines += ["  shown with it:", *(line for detail in details for line in wrapped("    | ", detail, width))]
    lines += [line for note in request.notes for line in wrapped("  note: ", note, width)]
    if not request.is_shown_whole:
        lines.append(
            f"  {remainder.hidden_files:,} more files and {remainder.hidden_characters:,} more characters cannot be "
            "shown here,\n  so you can only reject it here; a rule can allow it"
        )
    elif request.raw and not request.can_be_remembered:
        lines.append("  your answer applies once: too little was shown to recognize the same request again")
    return lines


def wrapped(head: str, text: str, width: int) -> Iterator[str]:
    """Yield the head and text of an agent in lines that fit; continued lines start behind a bar."""
    columns_left = max(10, width - max(len(head), 6) - 1)
    for number, piece in enumerate(_pieces(text, columns_left)):
        yield f"{'    | ' if number else head}{piece}"


def _pieces(text: str, columns_left: int) -> Iterator[str]:
    """Split text into pieces that fit into this many columns; a non-ASCII character may take two."""
    piece, used = "", 0
    for character in text:
        columns = 1 if character.isascii() else 2
        if used + columns > columns_left:
            yield piece
            piece, used = "", 0
        piece += character
        used += columns
    yield piece


def terminal_width() -> int:
    """Return the columns of the terminal that questions are shown on."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH
