"""Rules between an editor and an agent: `duologue proxy examples/proxy_rules.py -- COMMAND`."""

import re

from msgspec import structs

from duologue.proxy import Block, Prompt, Proxy, ReadFile, WireMessage
from duologue.types import MessageChunk, StdioMcpServer, TextContent, Update

proxy = Proxy("team rules")

# Every session gets this MCP server in addition to those of the editor.
proxy.add_mcp_server(StdioMcpServer(name="tickets", command="mcp-tickets", args=["--read-only"]))


@proxy.on_prompt
def check_prompt(prompt: Prompt) -> Prompt | None:
    """Keep keys out of prompts, and put the team's instructions before each that is no slash command."""
    if re.search(r"\bAKIA[0-9A-Z]{16}\b", prompt.text):
        raise Block("the prompt contains an access key")
    if prompt.text.startswith("/"):
        return None
    return prompt.with_prefix("Answer in English, and name the files that you read.")


@proxy.on_request("fs/read_text_file")
def hide_environment(request: ReadFile) -> object:
    """Answer in place of the editor: the agent sees an empty file."""
    return proxy.answer("") if request.path.endswith("/.env") else None


@proxy.on_update
def mask_hosts(update: Update) -> Update | None:
    """Change what the agent says; None passes an update on as it is."""
    if not isinstance(update, MessageChunk) or not isinstance(update.content, TextContent):
        return None
    masked = re.sub(r"[\w-]+\.internal\b", "HOST", update.content.text)
    return structs.replace(update, content=structs.replace(update.content, text=masked))


@proxy.observe
def count(message: WireMessage) -> None:
    """See every message, in both directions; what this prints goes to stderr."""
    if message.kind == "request":
        print(message.direction, message.method)
