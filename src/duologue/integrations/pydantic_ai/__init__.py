"""Serve an agent made with pydantic-ai as an ACP agent. Needs the extra `pydantic-ai`.

    from pydantic_ai import Agent
    from duologue.integrations.pydantic_ai import acp_agent

    acp_agent(Agent("openai:gpt-5", tools=[…])).run()

Text and thoughts stream, tool calls are shown, tools that need approval request permission, models and modes are
settings, cancelling ends the run, and each session stores the library's message history. The MCP servers that a client
names are connected if the extra `mcp` is installed, and calls of their tools request permission. `EditorWorkspace` lets
tools work in the editor. Only programs import this package.
"""

from __future__ import annotations

from duologue.integrations.tool_calls import missing_extra

try:
    from duologue.integrations.pydantic_ai.adapter import acp_agent
    from duologue.integrations.pydantic_ai.editor_workspace import EditorWorkspace
    from duologue.integrations.pydantic_ai.modes import RunMode
    from duologue.integrations.pydantic_ai.workspace_policy import (
        PermissionRejected,
        WorkspaceRequest,
        ask_before_commands,
    )
    from duologue.integrations.pydantic_ai.workspace_tools import WorkspaceTools
except ImportError as error:
    raise missing_extra(error, "pydantic-ai") from error

__all__ = [
    "EditorWorkspace",
    "PermissionRejected",
    "RunMode",
    "WorkspaceRequest",
    "WorkspaceTools",
    "acp_agent",
    "ask_before_commands",
]
