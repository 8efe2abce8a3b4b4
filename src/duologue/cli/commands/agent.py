"""`duologue agent`: the built-in agent on stdio, or a scripted one that plays a scenario."""

from __future__ import annotations

import argparse
from pathlib import Path


def agent(arguments: argparse.Namespace) -> int:
    """Serve the built-in agent, or play the scenario that was given; return the exit code."""
    if arguments.scenario is not None:
        from duologue.testing.scenario import play

        return play(Path(arguments.scenario))
    from duologue.builtin.agent import main

    return main(arguments)
