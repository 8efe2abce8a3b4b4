"""An agent of the protocol that answers prompts with an agent of pydantic-ai."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic_ai import Agent as PydanticAgent

from duologue.agent.agent import Agent
from duologue.agent.diagnostics.checks import check_tool_call
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.conversation.content import Content
from duologue.conversation.work_state import ToolKind
from duologue.integrations.prompt_commands import add_prompt_commands
from duologue.integrations.pydantic_ai.commands import add_commands
from duologue.integrations.pydantic_ai.modes import Models, RunMode, models_by_name, settings_type
from duologue.integrations.pydantic_ai.run import PydanticRun, RunOptions
from duologue.protocol.feature_filter import Unstable
from duologue.store.memory import MemoryStore

D = TypeVar("D")


def acp_agent(
    agent: PydanticAgent[D, Any],
    *,
    name: str | None = None,
    version: str = "0.0.0",
    deps: Callable[[Turn[Any]], D] | None = None,
    kinds: Mapping[str, ToolKind] | None = None,
    models: Models | None = None,
    modes: Mapping[str, RunMode] | None = None,
    settings: type[Settings] | None = None,
    commands: Mapping[str, str] | None = None,
    run_options: Callable[[Turn[Any]], Mapping[str, Any]] | None = None,
    unstable: Unstable = False,
) -> Agent[Any]:
    """Return an `Agent` that answers prompts with this one; sessions are stored in memory, see `persist_sessions`.

    Args:
        agent: An agent made with pydantic-ai.
        name: The agent's name; the name of `agent` if not given.
        version: The agent's version.
        deps: Returns the dependencies of a run for a turn.
        kinds: Kinds of tools by name, where the name alone is not enough: `{"deploy": "execute"}`.
        models: Models that the user can choose from, the first for new sessions: names, or models by name.
        modes: Modes that the user can choose from, the first for new sessions: `{"ask": RunMode(tools=["read"])}`.
        settings: More settings; tools read them from `deps`, model settings from `run_options`.
        commands: Prompts by the slash command that sends them: `{"review": "Review the changes in {argument}"}`.
            There are also `/clear`, `/compact` and, with `models`, `/model`; `@agent.command` registers functions.
        run_options: Returns more arguments of a run for a turn, as for `agent.run`: `{"usage_limits": …}`.
        unstable: Unstable features to offer; see `Agent`.

    Raises:
        ValueError: A kind of tool, or the name of a command, is not valid.
    """
    for kind in (kinds or {}).values():
        check_tool_call(kind)
    by_name = models_by_name(models)
    options = RunOptions(deps, dict(kinds or {}), by_name, dict(modes or {}), run_options)
    served: Agent[Any] = Agent(
        name or agent.name or "pydantic-ai",
        version=version,
        settings=settings_type(settings, by_name, options.modes),
        accepts=("image", "audio", "resource"),
        mcp=True,
        steering=True,
        auto_title=True,
        unstable=unstable,
        store=MemoryStore(),
    )

    async def run(turn: Turn[Any], prompt: list[Content]) -> str:
        return await PydanticRun(agent, turn, options).run(prompt)

    @served.on_prompt
    async def answer(turn: Turn[Any]) -> str:
        return await run(turn, turn.prompt)

    add_commands(served, agent, options)
    add_prompt_commands(served, commands or {}, run)
    return served
