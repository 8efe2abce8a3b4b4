"""Serve a LangGraph graph as an ACP agent. Needs the extra `langgraph`.

    from duologue.integrations.langgraph import acp_agent

    acp_agent(graph, name="my-graph").run()

The graph's state must have `messages`. Text and thoughts stream, tool calls are shown, interrupts and breakpoints
request permission, cancelling ends the run. A graph with a checkpointer stores its own history under the session's id;
otherwise the session stores it. Only programs import this package.
"""

from __future__ import annotations

from duologue.integrations.tool_calls import missing_extra

try:
    from duologue.integrations.langgraph.adapter import acp_agent
except ImportError as error:
    raise missing_extra(error, "langgraph") from error

__all__ = ["acp_agent"]
