"""The two ends of a conversation over a real pipe: the built-in agent as a child process, and a client made of the
typed methods of version 1."""

import asyncio
import tempfile
from pathlib import Path

from duologue.lowlevel import Connection, Context, Handlers, ProcessTransport
from duologue.schema import v1

client = Handlers()


@client.on(v1.SESSION_UPDATE)
async def update(context: Context, params: v1.SessionNotification) -> None:
    match params.update:
        case v1.AgentMessageChunk(content=v1.TextContent(text=text)):
            print(text, end="", flush=True)
        case v1.ToolCall(title=title, kind=kind):
            print(f"[{kind}] {title}")
        case v1.ToolCallUpdate(status=status) if status is not None:
            print(f"    {status}")
        case v1.Plan(entries=entries):
            print("plan: " + ", ".join(f"{entry.content} ({entry.status})" for entry in entries))
        case _:
            pass


@client.on(v1.SESSION_REQUEST_PERMISSION)
async def permission(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
    chosen = next(option for option in params.options if option.kind == "allow_once")
    print(f"    may it? {chosen.name}")
    return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=chosen.option_id))


async def main(directory: Path) -> None:
    (directory / "notes.md").write_text("Two ends,\none conversation.\n", "utf-8")
    agent = ProcessTransport(["duologue", "agent", "--sessions", str(directory / "kept")])
    async with Connection(agent, client, ignore_stray_output=True) as connection:
        hello = await connection.request(v1.INITIALIZE, v1.InitializeRequest(protocol_version=1))
        assert hello.agent_info is not None
        print(f"talking to {hello.agent_info.title} {hello.agent_info.version}\n")
        request = v1.NewSessionRequest(cwd=str(directory), mcp_servers=[])
        session = await connection.request(v1.SESSION_NEW, request)
        for prompt in ("hello", "/read notes.md", "/plan", "/write answer.txt forty-two"):
            print(f"> {prompt}")
            asked = v1.PromptRequest(session_id=session.session_id, prompt=[v1.TextContent(text=prompt)])
            answer = await connection.request(v1.SESSION_PROMPT, asked)
            print(f"({answer.stop_reason})\n")
    print(f"answer.txt says: {(directory / 'answer.txt').read_text('utf-8')}", end="")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cwd:
        asyncio.run(main(Path(cwd)))
