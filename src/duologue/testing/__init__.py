"""Tools for testing agents and clients: pytest fixtures, scripted agents, clients and models, replayed recordings.

Importing this package loads neither pytest nor the modules below. The built-in agent and both sides do not import it;
programs and tests do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duologue.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from duologue.builtin.agent import builtin_agent as builtin_agent
    from duologue.testing.agent_replay import ReplayAgent as ReplayAgent
    from duologue.testing.agent_replay import ReplayFailed as ReplayFailed
    from duologue.testing.agent_replay import replay_agent as replay_agent
    from duologue.testing.agent_tester import AgentTester as AgentTester
    from duologue.testing.assertions import assert_turn as assert_turn
    from duologue.testing.client_replay import replay_client as replay_client
    from duologue.testing.faults.byte_stream import faulty_streams as faulty_streams
    from duologue.testing.faults.clock import ClockStopped as ClockStopped
    from duologue.testing.faults.clock import VirtualClock as VirtualClock
    from duologue.testing.faults.plan import FaultPlan as FaultPlan
    from duologue.testing.faults.transport import FaultyTransport as FaultyTransport
    from duologue.testing.message_log import LoggedFrame as LoggedFrame
    from duologue.testing.models.faults import MODEL_FAULTS as MODEL_FAULTS
    from duologue.testing.models.request import ModelMessage as ModelMessage
    from duologue.testing.models.request import ModelRequest as ModelRequest
    from duologue.testing.models.request import ModelToolResult as ModelToolResult
    from duologue.testing.models.script import ModelScript as ModelScript
    from duologue.testing.models.script import ModelToolCall as ModelToolCall
    from duologue.testing.models.script import ModelTurn as ModelTurn
    from duologue.testing.models.script import ModelUsage as ModelUsage
    from duologue.testing.models.script import RequestPattern as RequestPattern
    from duologue.testing.models.script import read_model_script as read_model_script
    from duologue.testing.models.script import tool_call as tool_call
    from duologue.testing.models.server import ModelScriptFailed as ModelScriptFailed
    from duologue.testing.models.server import ModelServer as ModelServer
    from duologue.testing.profiles.agent import QuirkyAgent as QuirkyAgent
    from duologue.testing.profiles.client import QuirkyClient as QuirkyClient
    from duologue.testing.profiles.profile import AgentAct as AgentAct
    from duologue.testing.profiles.profile import AgentProfile as AgentProfile
    from duologue.testing.profiles.profile import ClientProfile as ClientProfile
    from duologue.testing.recording_cases import acp_recordings as acp_recordings
    from duologue.testing.scenario import Scenario as Scenario
    from duologue.testing.scenario import play as play
    from duologue.testing.script import Script as Script
    from duologue.testing.script import Step as Step
    from duologue.testing.script_player import ScenarioFailed as ScenarioFailed
    from duologue.testing.scripted_client import ClientRun as ClientRun
    from duologue.testing.scripted_client import ScriptedClient as ScriptedClient
    from duologue.testing.scripted_client import drive as drive
    from duologue.testing.snapshot import SnapshotMismatch as SnapshotMismatch
    from duologue.testing.snapshot import assert_transcript as assert_transcript
    from duologue.testing.transcript_lines import transcript_text as transcript_text
    from duologue.trace.replay.deviation import Deviation as Deviation
    from duologue.trace.replay.report import ReplayReport as ReplayReport
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "duologue.builtin.agent": "builtin_agent",
            "duologue.testing.agent_tester": "AgentTester",
            "duologue.testing.agent_replay": "ReplayAgent ReplayFailed replay_agent",
            "duologue.testing.assertions": "assert_turn",
            "duologue.testing.client_replay": "replay_client",
            "duologue.testing.faults.byte_stream": "faulty_streams",
            "duologue.testing.faults.clock": "ClockStopped VirtualClock",
            "duologue.testing.faults.plan": "FaultPlan",
            "duologue.testing.faults.transport": "FaultyTransport",
            "duologue.testing.message_log": "LoggedFrame",
            "duologue.testing.models.faults": "MODEL_FAULTS",
            "duologue.testing.models.request": "ModelMessage ModelRequest ModelToolResult",
            "duologue.testing.models.script": (
                "ModelScript ModelToolCall ModelTurn ModelUsage RequestPattern read_model_script tool_call"
            ),
            "duologue.testing.models.server": "ModelScriptFailed ModelServer",
            "duologue.testing.profiles.agent": "QuirkyAgent",
            "duologue.testing.profiles.client": "QuirkyClient",
            "duologue.testing.profiles.profile": "AgentAct AgentProfile ClientProfile",
            "duologue.testing.recording_cases": "acp_recordings",
            "duologue.testing.scenario": "Scenario play",
            "duologue.testing.script": "Script Step",
            "duologue.testing.script_player": "ScenarioFailed",
            "duologue.testing.scripted_client": "ClientRun ScriptedClient drive",
            "duologue.testing.snapshot": "SnapshotMismatch assert_transcript",
            "duologue.testing.transcript_lines": "transcript_text",
            "duologue.trace.replay.deviation": "Deviation",
            "duologue.trace.replay.report": "ReplayReport",
        },
    )
