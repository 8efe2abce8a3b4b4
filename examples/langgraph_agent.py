"""A LangGraph graph, served to editors. The fake model stands for a real one: no key, no network."""

# LangGraph and LangChain leave much of their types open.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langgraph.graph import END, START, MessagesState, StateGraph

from duologue.integrations.langgraph import acp_agent

model = FakeListChatModel(responses=["Here is my answer."])  # for real: any chat model


async def answer(state: MessagesState) -> dict[str, list[object]]:
    return {"messages": [await model.ainvoke(state["messages"])]}


graph = StateGraph(MessagesState)
graph.add_node("answer", answer)
graph.add_edge(START, "answer")
graph.add_edge("answer", END)

agent = acp_agent(graph.compile(), name="answers", version="1.0")

if __name__ == "__main__":
    agent.run()
