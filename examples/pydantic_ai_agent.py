"""An agent made with pydantic-ai, served to editors. The test model stands for a real one: no key, no network."""

from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from duologue.integrations.pydantic_ai import acp_agent

# for real: Agent("openai:gpt-5", …)
assistant = Agent(TestModel(call_tools=["read_file"], custom_output_text="I have read it."), name="reader")


@assistant.tool_plain
def read_file(path: str) -> str:
    """Read a text file."""
    file = Path(path)
    return file.read_text("utf-8") if file.is_file() else "there is no such file"


@assistant.tool_plain(requires_approval=True)  # asks the user in the editor
def delete_file(path: str) -> str:
    """Delete a file."""
    Path(path).unlink(missing_ok=True)
    return "deleted"


agent = acp_agent(assistant, version="1.0")

if __name__ == "__main__":
    agent.run()
