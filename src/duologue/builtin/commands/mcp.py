"""The command that uses the MCP servers that the client named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from duologue import Turn
from duologue.builtin.markdown import table
from duologue.builtin.settings import BuiltinSettings, may
from duologue.builtin.slash_command import command, path_and_rest
from duologue.conversation.content import JsonObject
from duologue.errors import RequestError

if TYPE_CHECKING:
    from duologue.mcp.servers import McpServers
    from duologue.mcp.tools import McpTool


@command("mcp", "List the session's MCP servers, or call a tool of one", shows="MCP servers", hint="[server tool {…}]")
async def mcp(turn: Turn[BuiltinSettings], argument: str) -> None:
    """List the servers or call a tool; asks first in the default mode."""
    try:
        servers = turn.mcp
    except RuntimeError:
        await turn.say("I cannot use MCP servers here: install `duologue[mcp]` where I run.\n")
        return
    await servers.ready()
    server, rest = path_and_rest(argument)
    if not server:
        await _list(turn, servers)
        return
    name, given = path_and_rest(rest)
    tool = next((each for each in servers.tools if (each.server, each.name) == (server, name)), None)
    if tool is None:
        await turn.say(f"There is no tool `{name}` on a server `{server}`; `/mcp` lists what there is.\n")
        return
    try:
        arguments = msgspec.json.decode(given or "{}", type=JsonObject)
    except msgspec.MsgspecError as error:
        await turn.say(f"The arguments must be a JSON object: {error}.\n")
        return
    await _call(turn, tool, arguments)


COMMANDS = (mcp,)


async def _list(turn: Turn[BuiltinSettings], servers: McpServers) -> None:
    if not servers.states and not servers.errors:
        await turn.say("This session has no MCP servers.\n")
        return
    for name, why in servers.errors.items():
        await turn.say(f"`{name}` cannot be used: {why}\n\n")
    rows = [(f"`{tool.server}`", f"`{tool.name}`", tool.description) for tool in servers.tools]
    await turn.say(table(("server", "tool", "what it says it does"), rows))


async def _call(turn: Turn[BuiltinSettings], tool: McpTool, arguments: JsonObject) -> None:
    async with turn.tool(f"{tool.server}: {tool.title or tool.name}", name=tool.name, raw_input=arguments) as call:
        # By fingerprint: a tool that changes under an approved name needs a new approval.
        if not await may(turn, call, "call tools of others", remember_as=f"mcp {tool.fingerprint}"):
            await turn.say(f"I did not call `{tool.name}`.\n")
            return
        try:
            result = await tool(**arguments)
        except RequestError as error:
            await call.fail(error.message)
            await turn.say(f"`{tool.name}` could not be called: {error.message}\n")
            return
        await call.show(*result.content)
        await call.update(status="failed" if result.is_error else "completed", raw_output=result.raw)
    await turn.say(f"`{tool.name}` {'failed' if result.is_error else 'answered'}: {result.text}\n")
