"""A permission question on a plain terminal: everything that would be granted, then the possible answers by number.

Lines are wrapped here and not by the terminal: where text of the agent goes on in the next line it stands behind a bar,
so that it cannot look like a line of ours. Each answer begins with our own word for its kind, whatever the agent calls
it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from duologue.cli.console.line_reader import LineReader
from duologue.cli.console.renderer import Output
from duologue.cli.console.safe_output import say
from duologue.client.permissions.policy import PermissionRequest
from duologue.client.permissions.request import REJECTING, Scope
from duologue.protocol.values import PermissionOption
from duologue.sanitize import escape_line

__all__ = ["PermissionPrompt", "answers_to", "introduction", "terminal_width", "wrapped"]

REMEMBERED: dict[str, Scope] = {"in this session": "session", "in this directory": "project"}
"""How long a yes can hold, beside what the agent itself offers."""
KINDS = {
    "allow_once": ("Allow once", ("allow", "allow once")),
    "allow_always": ("Allow always; the agent decides what it asks about again", ("allow always", "always allow")),
    "reject_once": ("Reject", ("reject", "reject once")),
    "reject_always": ("Reject always", ("reject always", "always reject")),
}
"""Our own word for each kind of option, and names of the agent that say no more."""
OURS = {
    "allow_always": "Allow, and do not ask about this again in this session",
    "reject_always": "Reject, and do not ask about this again in this session",
}
"""What is meant by options that no agent offers: an act itself is in question, and the answer is remembered here."""
MOST_OPTIONS = 20
"""Options of the agent that are shown; those beyond cannot be chosen here."""
WIDTH = 80

Answer: TypeAlias = tuple[str, Callable[[], bool]]


class PermissionPrompt:
    """Asks on a terminal.

    Args:
        reader: Where the answers are typed.
        shown: Shows what a question is about.
    """

    def __init__(self, reader: LineReader, shown: Output) -> None:
        self._reader = reader
        self._shown = shown

    async def __call__(self, question: PermissionRequest) -> None:
        """Put the question; anything that is not one of the answers is a no."""
        self._shown.pause()
        self._shown.asked(question.tool)
        answers, width = answers_to(question), terminal_width()
        say("\n".join(introduction(question, width)) + "\n")
        for number, (name, _) in enumerate(answers, 1):
            say("\n".join(wrapped(f"  {number}. ", name, width)) + "\n")
        self._reader.forget()  # what was typed before the question was put is no answer to it
        say("Your choice (a number; enter means no): ")
        said = await self._reader.read()
        if said is None:
            say("\n")
        choice = (said or "").strip()
        if choice.isdecimal() and 0 < int(choice) <= len(answers):
            answers[int(choice) - 1][1]()
        else:
            question.reject()


def answers_to(question: PermissionRequest) -> list[Answer]:
    """What can be said: the agent's own options first, then what we would remember for it.

    What was not shown whole cannot be allowed here.
    """
    options = [each for each in question.usable_options if question.is_shown_whole or each.kind in REJECTING]
    answers: list[Answer] = [
        (
            _name_of(option) if question.raw else OURS.get(option.kind, option.name),
            partial(question.choose, option.option_id),
        )
        for option in options[:MOST_OPTIONS]
    ]
    if question.option_of_kind("allow_once") is not None and question.raw and question.can_be_remembered:
        for told, scope in REMEMBERED.items():
            answers.append((f"Allow, and do not ask about this again {told}", partial(_remember, question, scope)))
        answers += [
            (f"Allow `{escape_line(rule, None)}` in this session", partial(_remember, question, "session", rule))
            for rule in question.offered_rules
            if rule != question.command  # that one is above
        ]
    return answers


def _name_of(option: PermissionOption) -> str:
    """Our word for the kind, then what the agent calls it."""
    unknown = f"Unknown kind of answer {_short(option.kind)}, which may mean yes"
    kind, usual = KINDS.get(option.kind, (unknown, ()))
    name = " ".join(option.name.split())
    return kind if name.casefold() in usual else f"{kind} (in the agent's words: {_short(name)})"


def _short(text: str) -> str:
    return f'"{escape_line(text, 40)}"'


def _remember(question: PermissionRequest, scope: Scope, rule: str | None = None) -> bool:
    return question.allow(remember=scope, rule=rule)


def introduction(question: PermissionRequest, width: int = WIDTH) -> list[str]:
    """What a question is about, line by line: what the agent calls it, every effect, what it shows, what is unusual."""
    acts, details, remainder = question.acts, question.details, question.remainder
    lines = ["", *wrapped("The agent asks to: ", question.title or escape_line(question.tool.kind), width)]
    lines += [f"  effects ({len(acts)}):", *(line for act in acts for line in wrapped("    ", act, width))]
    if details:
        lines += ["  shown with it:", *(line for detail in details for line in wrapped("    | ", detail, width))]
    lines += [line for note in question.notes for line in wrapped("  note: ", note, width)]
    if not question.is_shown_whole:
        lines.append(
            f"  {remainder.hidden_files:,} more files and {remainder.hidden_characters:,} more characters cannot be "
            "shown here,\n  so this can only be rejected here; a rule can allow it"
        )
    elif question.raw and not question.can_be_remembered:
        lines.append("  an answer holds once: too little was shown to know the same again")
    return lines


def wrapped(head: str, text: str, width: int) -> Iterator[str]:
    """Text of an agent after words of ours, in lines that fit; all but the first stand behind a bar."""
    room = max(10, width - max(len(head), 6) - 1)
    for number, piece in enumerate(_pieces(text, room)):
        yield f"{'    | ' if number else head}{piece}"


def _pieces(text: str, room: int) -> Iterator[str]:
    """The text in pieces that fit into so many columns; a character beyond ASCII may take two."""
    piece, used = "", 0
    for character in text:
        columns = 1 if character.isascii() else 2
        if used + columns > room:
            yield piece
            piece, used = "", 0
        piece += character
        used += columns
    yield piece


def terminal_width() -> int:
    """The columns of the terminal that questions are put on."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH
