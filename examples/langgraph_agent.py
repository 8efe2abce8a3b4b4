"""A LangGraph graph, served to editors: tools, a tool that asks, a mode, a slash command. No key, no network."""

# LangGraph and LangChain leave much of their types open.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

from duologue import Settings, choice
from duologue.integrations.langgraph import acp_agent


@tool
def read_file(path: str) -> str:
    """Read a text file."""
    get_stream_writer()(f"reading {path} …")  # shown in the tool call
    file = Path(path)
    return file.read_text("utf-8") if file.is_file() else "there is no such file"


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    if not interrupt({"question": f"Delete {path}?"}):  # a permission request in the editor
        return "the user did not permit this"
    Path(path).unlink(missing_ok=True)
    return "deleted"


class Choices(Settings):
    mode = choice("ask", "edit", category="mode")  # the editor shows it; nodes find it in their config


def model(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    """Stand for a chat model; for real: `ChatOpenAI("gpt-5").bind_tools(tools).invoke(state["messages"])`."""
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"The result is: {last.text}")]}
    verb, _, path = last.text.strip().partition(" ")
    if path and verb in ("read", "delete"):
        if verb == "delete" and config.get("configurable", {}).get("mode") == "ask":
            return {"messages": [AIMessage("I only read in this mode; switch to edit.")]}
        name = f"{verb}_file"
        return {"messages": [AIMessage("", tool_calls=[{"name": name, "args": {"path": path}, "id": last.id}])]}
    return {"messages": [AIMessage("Hello! Try: read README.md, or in edit mode: delete old.txt")]}


graph = StateGraph(MessagesState)
graph.add_node("model", model)
graph.add_node("tools", ToolNode([read_file, delete_file]))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")

agent = acp_agent(
    graph.compile(checkpointer=InMemorySaver()),
    name="files",
    version="1.0",
    settings=Choices,
    commands={"readme": "read README.md"},
)

if __name__ == "__main__":
    agent.run()
