"""An agent made with pydantic-ai that works in the editor: its unsaved text, its terminals. Works without a key."""

import json
import os
from collections.abc import AsyncIterator

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from duologue.integrations.pydantic_ai import EditorWorkspace, acp_agent


async def offline(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
    """Stand for a model: `read FILE`, `append FILE TEXT` and `run COMMAND` call a tool."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        yield str(last.content)
        return
    prompt = "".join(map(str, last.content)) if isinstance(last, UserPromptPart) else ""
    verb, _, rest = prompt.partition(" ")
    path, _, text = rest.partition(" ")
    tools = {
        "read": ("read_file", {"path": path}),
        "append": ("append_line", {"path": path, "line": text}),
        "run": ("run_command", {"command": rest}),
    }
    if verb in tools and rest:
        name, arguments = tools[verb]
        yield {0: DeltaToolCall(name, json.dumps(arguments))}
    else:
        yield "Hello! Try: read README.md, append notes.txt one more line, run ls"


has_key = "OPENAI_API_KEY" in os.environ
assistant = Agent(
    "openai:gpt-5" if has_key else FunctionModel(stream_function=offline),
    name="worker",
    instructions="You work on the files of a project.",
)


@assistant.tool
async def read_file(ctx: RunContext[object], path: str) -> str:
    """Read a text file."""
    return await ctx.workspace.read_text(path)  # as it is in the editor, saved or not


@assistant.tool
async def append_line(ctx: RunContext[object], path: str, line: str) -> str:
    """Append a line to a text file."""
    before = await ctx.workspace.read_text(path) if await ctx.workspace.exists(path) else ""
    await ctx.workspace.write_text(path, f"{before}{line}\n")  # the editor shows the change
    return "appended"


@assistant.tool
async def run_command(ctx: RunContext[object], command: str) -> str:
    """Run a shell command."""
    # The user is asked, then the command runs in the editor's terminal.
    result = await ctx.workspace.run(command, shell=True, timeout=60)
    return f"exit code {result.exit_code}\n{result.stdout}{result.stderr}"


agent = acp_agent(assistant, version="1.0", run_options=lambda turn: {"workspace": EditorWorkspace(turn)})

if __name__ == "__main__":
    agent.run()
