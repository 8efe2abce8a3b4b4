"""Models and modes that the user chooses, as settings of a session."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic_ai.models import Model

from duologue.agent.settings import Settings, choice
from duologue.conversation.settings import Option

Models: TypeAlias = Sequence[str] | Mapping[str, Model | str]
"""Names of models, or models by the names that the user sees."""


@dataclass(frozen=True)
class RunMode:
    """Instructions and tools of the runs of a mode.

    Args:
        instructions: Added to the instructions of the agent.
        tools: The only tools that the model may call, those of MCP servers included. Default: all.
        approved: Tools that need no approval in this mode.
        description: A sentence for the user.
    """

    instructions: str | None = None
    tools: Collection[str] | None = None
    approved: Collection[str] = ()
    description: str | None = None


def models_by_name(models: Models | None) -> dict[str, Model | str]:
    """Return the models by the names that the user sees."""
    if models is None:
        return {}
    return dict(models) if isinstance(models, Mapping) else {name: name for name in models}


def settings_type(
    base: type[Settings] | None, models: Mapping[str, Any], modes: Mapping[str, RunMode]
) -> type[Settings]:
    """Return the author's settings, with a choice of model and of mode where there is something to choose."""
    choices: dict[str, Any] = {}
    if modes:
        named = [Option(name, name.replace("_", " ").capitalize(), mode.description) for name, mode in modes.items()]
        choices["mode"] = choice(*named, category="mode")
    if models:
        choices["model"] = choice(*(Option(name, name) for name in models), category="model")
    return cast("type[Settings]", type("AdapterSettings", (base or Settings,), choices))
