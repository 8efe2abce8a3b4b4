"""What a test may name as the agent under test."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TypeAlias, cast

from duologue.agent.hosting.function_agent import Answer, as_agent
from duologue.client.target import Target

TestTarget: TypeAlias = Target | Answer | type
"""A target of `connect`, or a function or class as in `duologue.run`."""


def as_target(target: TestTarget) -> Target:
    """Return the target of `connect`: an agent, if it is a function or class."""
    if inspect.isroutine(target) or inspect.isclass(target):
        target = as_agent(target)
    return cast("Target", target)


def absolute(directory: str | Path | None) -> Path:
    """Return the absolute path of a working directory; the current one if it is `None`."""
    return Path(directory or ".").absolute()
