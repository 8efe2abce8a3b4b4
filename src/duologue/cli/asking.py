"""A permission question on a plain terminal: what it is about, then the agent's own options and ours, by number."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from duologue.cli.reading import LineReader
from duologue.cli.show import Shown
from duologue.client.inert import inert
from duologue.client.permissions import Question
from duologue.client.questions import Scope

__all__ = ["TerminalAsker", "answers_to"]

REMEMBERED: dict[str, Scope] = {"in this session": "session", "in this directory": "project"}
"""How long a yes can hold, beside what the agent itself offers."""

Answer: TypeAlias = tuple[str, Callable[[], bool]]


class TerminalAsker:
    """Asks on a terminal.

    Args:
        reader: Where the answers are typed.
        shown: Shows what a question is about.
    """

    def __init__(self, reader: LineReader, shown: Shown) -> None:
        self._reader = reader
        self._shown = shown

    async def __call__(self, question: Question) -> None:
        """Put the question; anything that is not one of the answers is a no."""
        self._shown.pause()
        self._shown.asked(question.tool)
        answers = answers_to(question)
        _say(_introduction(question))
        for number, (name, _) in enumerate(answers, 1):
            _say(f"  {number}. {name}\n")
        self._reader.forget()  # what was typed before the question was put is no answer to it
        _say("Your choice (a number; enter means no): ")
        said = await self._reader.read()
        if said is None:
            _say("\n")
        choice = (said or "").strip()
        if choice.isdecimal() and 0 < int(choice) <= len(answers):
            answers[int(choice) - 1][1]()
        else:
            question.reject()


def answers_to(question: Question) -> list[Answer]:
    """What can be said: the agent's own options first, then what we would remember for it."""
    answers: list[Answer] = [
        (inert(option.name), partial(question.choose, option.option_id)) for option in question.options
    ]
    if question.option_of_kind("allow_once") is not None and question.raw:
        for told, scope in REMEMBERED.items():
            answers.append((f"Allow, and do not ask about this again {told}", partial(_remember, question, scope)))
        answers += [
            (f"Allow `{inert(rule)}` in this session", partial(_remember, question, "session", rule))
            for rule in question.offered_rules
            if rule != question.command  # that one is above
        ]
    return answers


def _remember(question: Question, scope: Scope, rule: str | None = None) -> bool:
    return question.allow(remember=scope, rule=rule)


def _introduction(question: Question) -> str:
    lines = [f"\nThe agent asks to: {question.title or inert(question.tool.kind)}"]
    if question.command is not None:
        lines.append(f"  command: {question.command}")
    else:
        lines += [f"  {inert(question.tool.kind)}: {path}" for path in question.paths[:10]]
    lines += [f"  note: {note}" for note in question.notes]
    return "\n".join(lines) + "\n"


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
