"""Tools for testing agents and clients: the pytest plugin, and scripted peers that play a scenario.

Scenarios speak raw frames, so that they can also send what no correct implementation would. The built-in agent and both
sides do not import this package; programs and tests do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duologue.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from duologue.builtin.agent import builtin_agent as builtin_agent
    from duologue.testing.scenario import Scenario as Scenario
    from duologue.testing.scenario import ScenarioFailed as ScenarioFailed
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {"duologue.builtin.agent": "builtin_agent", "duologue.testing.scenario": "Scenario ScenarioFailed"},
    )
