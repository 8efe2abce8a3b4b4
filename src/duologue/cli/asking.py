"""A permission question on a plain terminal: the agent's own options, by number."""

from __future__ import annotations

import asyncio
import sys

from duologue.client.permissions import Question

__all__ = ["ask_on_terminal"]


async def ask_on_terminal(question: Question) -> None:
    """Put the question; no answer is a no."""
    await asyncio.to_thread(_ask, question)


def _ask(question: Question) -> None:
    sys.stderr.write(f"\nThe agent wants to: {_inert(question.tool.title)} ({question.tool.kind})\n")
    for number, option in enumerate(question.options, 1):
        sys.stderr.write(f"  {number}. {_inert(option.name)}\n")
    sys.stderr.write("Your choice (a number; enter for no): ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if answer.isdigit() and 0 < int(answer) <= len(question.options):
        question.choose(question.options[int(answer) - 1].option_id)
    else:
        question.reject()


def _inert(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)[:500]
