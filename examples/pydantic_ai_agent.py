"""An agent made with pydantic-ai, served to editors. Without a key a test model stands for a real one."""

import os
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from duologue.integrations.pydantic_ai import RunMode, acp_agent

offline = TestModel(call_tools=["read_file"], custom_output_text="I have read it.")
models = ["openai:gpt-5", "openai:gpt-5-mini"] if "OPENAI_API_KEY" in os.environ else {"offline": offline}

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
    commands={"explain": "Explain what {argument} does, in three sentences."},
)

if __name__ == "__main__":
    agent.run()
