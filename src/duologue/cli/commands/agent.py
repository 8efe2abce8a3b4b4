"""`duologue agent`: the built-in agent on stdio, or one that plays a scenario or the habits of a published agent."""

from __future__ import annotations

import argparse
from pathlib import Path


def agent(arguments: argparse.Namespace) -> int:
    """Serve the built-in agent, or play the scenario or profile that was given; return the exit code."""
    if arguments.scenario is not None or arguments.profile is not None:
        from duologue.testing.scenario import play

        return play(Path(arguments.scenario or ""), profile=arguments.profile)
    from duologue.builtin.agent import main

    return main(arguments)
