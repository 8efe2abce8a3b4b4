"""The agent of pydantic-ai behind `duologue code`: a list of the library's capabilities, and our hooks."""

from __future__ import annotations

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai_harness.ask_user import AskUser
from pydantic_ai_harness.filesystem import FileSystem
from pydantic_ai_harness.planning import Planning
from pydantic_ai_harness.repair_tool_arguments import RepairToolArguments
from pydantic_ai_harness.repo_context import RepoContext
from pydantic_ai_harness.shell import Shell
from pydantic_ai_harness.skills import Skills
from pydantic_ai_harness.subagents import SubAgents

from duologue.coder.compaction import compaction
from duologue.coder.hooks import TurnHooks
from duologue.coder.modes import PLAN_TOOLS
from duologue.coder.questions import answer_questions
from duologue.coder.subagents import show_subagent
from duologue.coder.turn import CodeTurn
from duologue.coder.workspace import COMMAND_TOOL, SECRET_PATTERNS

SKILL_FOLDERS = (".agents/skills", ".claude/skills")

COMMAND_SECONDS = 120.0
"""Default time of a command; the model can ask for more."""

MOST_RETRIES = 5
"""Mistakes in a row with one tool, such as an edit whose text is not found, before the turn fails."""


def coding_agent(*, context_window: int | None = None) -> Agent[CodeTurn, str]:
    """Return the agent; its model comes with each run, the size of the context if the library does not know it."""
    capabilities: list[AbstractCapability[CodeTurn]] = [
        TurnHooks(),
        FileSystem(content_hashes=False, denied_patterns=SECRET_PATTERNS, max_retries=MOST_RETRIES),
        Shell(tools=[COMMAND_TOOL], denied_commands=[], default_timeout=COMMAND_SECONDS),
        RepoContext(filenames=("AGENTS.md", "CLAUDE.md")),
        Skills(SKILL_FOLDERS, missing_directories="skip", duplicate_names="keep_first"),
        Planning(store_resolver=lambda ctx: ctx.deps.plan, tools=sorted(PLAN_TOOLS)),
        AskUser(answerer=answer_questions),
        SubAgents(include_self=True, event_stream_handler=show_subagent),
        compaction(context_window),
        RepairToolArguments(),
    ]
    return Agent(name="code", deps_type=CodeTurn, capabilities=capabilities, retries=2)
