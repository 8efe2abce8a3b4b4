"""Make an agent from a plain function or class."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from duologue.agent.agent import Agent
from duologue.agent.diagnostics.checks import check_annotations, check_handler, wrong_answer
from duologue.agent.session import Session
from duologue.agent.turn import Turn
from duologue.conversation.content import Content
from duologue.store.memory import MemoryStore

Answer: TypeAlias = Callable[..., AsyncIterator[str | Content] | Awaitable[Any]]
"""An async generator of chunks, or a coroutine function that returns the whole answer or nothing."""


def run(target: Answer | type | Agent[Any], *, name: str | None = None) -> None:
    """Run an agent on stdin and stdout until the client disconnects. Blocks.

    Args:
        target: An `Agent`, or a function that gets the prompt's text (or the `Turn`, if its parameter is annotated so)
            and returns or yields the answer, or a class with such a method `prompt`. A class is instantiated for each
            session; its constructor may take the `Session`.
        name: The agent's name; the name of the function or class if not given.
    """
    as_agent(target, name=name).run()


def as_agent(target: Answer | type | Agent[Any], *, name: str | None = None) -> Agent[Any]:
    """Return an `Agent` that answers prompts with `target` and stores sessions in memory; see `run`."""
    if isinstance(target, Agent):
        return target  # pyright: ignore[reportUnknownVariableType]
    shown = name or str(getattr(target, "__name__", "agent")).replace("_", "-").lower()
    agent: Agent[Any] = Agent(shown, store=MemoryStore())
    if isinstance(target, type):
        method: Answer | None = getattr(target, "prompt", None)
        if method is None:
            raise TypeError(f"the class {target.__name__} needs a method `async def prompt(self, prompt): …`")
        check_handler("method `prompt`", method, "self", "prompt", may_yield=True)
        check_annotations("method `prompt`", method, (target, Turn if _wants_turn(method, position=1) else str))
        instances: WeakKeyDictionary[Session[Any], Any] = WeakKeyDictionary()

        @agent.on_open
        async def instantiate(session: Session[Any]) -> None:
            takes_session = len(inspect.signature(target).parameters) > 0
            instances[session] = target(session) if takes_session else target()

        @agent.on_prompt
        async def answer_with_instance(turn: Turn[Any]) -> Any:
            return await _answer(instances[turn.session].prompt, turn)
    else:
        check_handler("function that answers prompts", target, "prompt", may_yield=True)
        check_annotations("function that answers prompts", target, (Turn if _wants_turn(target) else str,))

        @agent.on_prompt
        async def answer_with_function(turn: Turn[Any]) -> Any:
            return await _answer(target, turn)

    return agent


async def _answer(function: Answer, turn: Turn[Any]) -> None:
    returned: Any = function(turn if _wants_turn(function) else turn.text)
    if isinstance(returned, AsyncGenerator):
        async with aclosing(cast("AsyncGenerator[str | Content]", returned)) as chunks:
            async for chunk in chunks:
                if type(chunk) is not str and not isinstance(chunk, Content):
                    frame = getattr(chunks, "ag_frame", None)
                    raise wrong_answer(function, "yielded", chunk, frame and frame.f_lineno)
                await turn.say(chunk)
    elif inspect.isawaitable(returned):
        answer: str | Content | None = await returned
        if answer is None:
            return
        if not isinstance(answer, str | Content):  # pyright: ignore[reportUnnecessaryIsInstance]  # not checked before
            raise wrong_answer(function, "returned", answer)
        await turn.say(answer)
    else:
        raise TypeError(f"{function!r} must be an async generator or a coroutine function")


def _wants_turn(function: Callable[..., Any], position: int = 0) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) <= position:  # `*args`
        return False
    hint = parameters[position].annotation
    return parameters[position].name == "turn" or re.match(r"(\w+\.)*Turn\b", _name_of(hint)) is not None


def _name_of(hint: Any) -> str:
    """Return the text of an annotation, whether it was evaluated or not."""
    return hint if isinstance(hint, str) else getattr(getattr(hint, "__origin__", hint), "__name__", "")
