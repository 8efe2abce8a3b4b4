"""Tools for testing agents and clients: the pytest fixture `acp`, and scripted agents that play a scenario.

Importing this package loads neither pytest nor the modules below. The built-in agent and both sides do not import it;
programs and tests do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duologue.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from duologue.builtin.agent import builtin_agent as builtin_agent
    from duologue.testing.agent_tester import AgentTester as AgentTester
    from duologue.testing.scenario import Scenario as Scenario
    from duologue.testing.scenario import ScenarioFailed as ScenarioFailed
    from duologue.testing.scenario import play as play
    from duologue.testing.script import Script as Script
    from duologue.testing.script import Step as Step
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "duologue.builtin.agent": "builtin_agent",
            "duologue.testing.agent_tester": "AgentTester",
            "duologue.testing.scenario": "Scenario ScenarioFailed play",
            "duologue.testing.script": "Script Step",
        },
    )
