"""Agents out of plain functions and classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from duologue.agent.agent import Agent
from duologue.agent.session import Session
from duologue.agent.turn import Turn
from duologue.conversation.content import Content
from duologue.store.memory import MemoryStore

__all__ = ["as_agent", "run"]

Answer: TypeAlias = Callable[..., AsyncIterator[str | Content] | Awaitable[Any]]
"""An async generator of pieces, or a coroutine function that returns the whole answer (or nothing)."""


def run(target: Answer | type | Agent[Any], *, name: str | None = None) -> None:
    """Serve an agent on stdio: an `Agent`, or a function from prompt to answer. Blocks until the client leaves.

    The function takes the prompt's text, or the whole `Turn` if its parameter is annotated so. A class is made once
    per session and needs a method `prompt`; its constructor may take the `Session`.
    """
    as_agent(target, name=name).run()


def as_agent(target: Answer | type | Agent[Any], *, name: str | None = None) -> Agent[Any]:
    """An `Agent` that answers prompts with `target`. Sessions are kept in memory."""
    if isinstance(target, Agent):
        return target  # pyright: ignore[reportUnknownVariableType]
    agent: Agent[Any] = Agent(name or getattr(target, "__name__", "agent").replace("_", "-").lower())
    agent.persist_sessions(MemoryStore())
    if isinstance(target, type):
        made: WeakKeyDictionary[Session[Any], Any] = WeakKeyDictionary()

        @agent.on_open
        async def make(session: Session[Any]) -> None:
            takes_session = len(inspect.signature(target).parameters) > 0
            made[session] = target(session) if takes_session else target()

        @agent.on_prompt
        async def answer_with_instance(turn: Turn[Any]) -> Any:
            return await _answer(made[turn.session].prompt, turn)
    else:

        @agent.on_prompt
        async def answer_with_function(turn: Turn[Any]) -> Any:
            return await _answer(target, turn)

    return agent


async def _answer(function: Answer, turn: Turn[Any]) -> None:
    returned: Any = function(turn if _wants_turn(function) else turn.text)
    if isinstance(returned, AsyncGenerator):
        async with aclosing(cast("AsyncGenerator[str | Content]", returned)) as pieces:
            async for piece in pieces:
                await turn.say(piece)
    elif inspect.isawaitable(returned):
        answer: str | Content | None = await returned
        if answer is not None:
            await turn.say(answer)
    else:
        raise TypeError(f"{function!r} must be an async generator or a coroutine function")


def _wants_turn(function: Callable[..., Any]) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise TypeError(f"{function!r} takes no prompt")
    hint = parameters[0].annotation
    return parameters[0].name == "turn" or re.match(r"(\w+\.)*Turn\b", _name_of(hint)) is not None


def _name_of(hint: Any) -> str:
    """An annotation as it is written, whether it was evaluated or not."""
    return hint if isinstance(hint, str) else getattr(getattr(hint, "__origin__", hint), "__name__", "")
