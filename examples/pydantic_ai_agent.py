"""An agent made with pydantic-ai, served to editors: tools, an approval, models, modes. Works without a key."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from duologue.integrations.pydantic_ai import RunMode, acp_agent


async def offline(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
    """Stand for a model: `read FILE` and `delete FILE` call a tool."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        yield f"The result is: {last.content}"
        return
    prompt = "".join(map(str, last.content)) if isinstance(last, UserPromptPart) else ""
    verb, _, path = prompt.partition(" ")
    if path and f"{verb}_file" in [tool.name for tool in info.function_tools]:
        yield {0: DeltaToolCall(f"{verb}_file", json.dumps({"path": path}))}
    else:
        yield "Hello! Try: read README.md, or in edit mode: delete old.txt"


has_key = "OPENAI_API_KEY" in os.environ
models = ["openai:gpt-5", "openai:gpt-5-mini"] if has_key else {"offline": FunctionModel(stream_function=offline)}

assistant = Agent(name="reader", instructions="You help with the files of a project.")


@assistant.tool_plain
def read_file(path: str) -> str:
    """Read a text file."""
    file = Path(path)
    return file.read_text("utf-8") if file.is_file() else "there is no such file"


@assistant.tool_plain(requires_approval=True)  # asks the user in the editor, who may also edit the arguments
def delete_file(path: str) -> str:
    """Delete a file."""
    Path(path).unlink(missing_ok=True)
    return "deleted"


agent = acp_agent(
    assistant,
    version="1.0",
    models=models,
    modes={
        "ask": RunMode("Explain, change nothing.", tools=["read_file"], description="Reads only"),
        "edit": RunMode(description="Asks before it deletes"),
    },
    commands={"readme": "read README.md"},
)

if __name__ == "__main__":
    agent.run()
