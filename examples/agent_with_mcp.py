"""An agent that uses the MCP servers its client names: `SERVER TOOL {"argument": …}` calls one, all else lists them."""

import json

from duologue import Agent, Turn

agent = Agent("tools", version="1.0", mcp=True, unstable={"mcp_over_acp"})


@agent.on_prompt
async def answer(turn: Turn) -> None:
    await turn.mcp.ready()  # every server has started, or has failed
    server, _, rest = turn.text.partition(" ")
    name, _, arguments = rest.partition(" ")
    if server in turn.mcp.states:
        await call(turn, server, name, json.loads(arguments or "{}"))
    else:
        if not turn.mcp.states:
            await turn.say("The client named no MCP servers.")
        await turn.say("".join(f"{tool.server} {tool.name}: {tool.description}\n" for tool in turn.mcp.tools))
        await turn.say("".join(f"{name} does not work: {why}\n" for name, why in turn.mcp.errors.items()))


async def call(turn: Turn, server: str, name: str, arguments: dict[str, object]) -> None:
    tool = next(tool for tool in turn.mcp.tools if (tool.server, tool.name) == (server, name))
    async with turn.tool(tool.title or tool.name, name=tool.function_name, raw_input=arguments) as shown:
        # "Always" covers this very tool: should the server give it another meaning, the user is asked again.
        if await shown.request_permission(remember_as=tool.fingerprint):
            result = await tool(**arguments)
            await shown.update(status=result.status, content=result.parts, raw_output=result.raw)


if __name__ == "__main__":
    agent.cli()
