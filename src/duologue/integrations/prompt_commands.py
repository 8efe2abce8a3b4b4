"""Slash commands that send a prompt of the author to the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from duologue.agent.agent import Agent
from duologue.agent.turn import Turn
from duologue.conversation.content import Content, TextContent

ARGUMENT = "{argument}"
"""Placeholder in a prompt for the text that the user typed after the command."""


def add_prompt_commands(
    served: Agent[Any], prompts: Mapping[str, str], run: Callable[[Turn[Any], list[Content]], Awaitable[str]]
) -> None:
    """Register a slash command for each prompt, by name.

    Args:
        served: The agent that gets the commands.
        prompts: Prompts by the name of their command.
        run: Answers a prompt and returns the stop reason.

    Raises:
        ValueError: A name cannot be that of a command, or a prompt is empty.
    """
    for name, prompt in prompts.items():
        if not prompt.strip():
            raise ValueError(f"the prompt of the command {name!r} must not be empty")
        _add(served, name, prompt, run)


def _add(served: Agent[Any], name: str, prompt: str, run: Callable[[Turn[Any], list[Content]], Awaitable[str]]) -> None:
    @served.command(name, prompt.strip().splitlines()[0], hint="text" if ARGUMENT in prompt else None)
    async def answer(turn: Turn[Any], argument: str) -> str:
        text = prompt.replace(ARGUMENT, argument) if ARGUMENT in prompt else f"{prompt}\n\n{argument}".strip()
        others = [block for block in turn.prompt if not isinstance(block, TextContent)]
        return await run(turn, [TextContent(text), *others])
