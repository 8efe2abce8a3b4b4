"""Your own coding agent: the tools of pydantic-ai-harness, working in the editor."""

import os

from pydantic_ai import Agent
from pydantic_ai_harness.filesystem import FileSystem
from pydantic_ai_harness.repo_context import RepoContext
from pydantic_ai_harness.shell import Shell

from duologue.integrations.pydantic_ai import EditorWorkspace, RunMode, acp_agent

READING = ["read_file", "list_directory", "search_files", "find_files", "file_info"]

coder = Agent(
    os.environ.get("CODING_MODEL", "openai-chat:gpt-5"),
    name="coder",
    instructions="You change programs. Read before you write, make small changes, and run the tests afterwards.",
    capabilities=[FileSystem(), Shell(tools=["run_command"]), RepoContext()],
    retries=3,
    defer_model_check=True,
)

agent = acp_agent(
    coder,
    version="1.0",
    modes={
        "ask": RunMode("Explain, change nothing.", tools=READING, description="Reads only"),
        "edit": RunMode(description="Edits, and asks before it runs a command"),
    },
    run_options=lambda turn: {"workspace": EditorWorkspace(turn)},
)

if __name__ == "__main__":
    agent.run()
