"""An agent that uses everything there is, and an editor that can do all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duologue.agent.agent import Agent
from duologue.agent.providers import Providers
from duologue.agent.settings import Settings, choice, toggle
from duologue.agent.turn import Turn
from duologue.conversation.content import TextContent
from duologue.conversation.updates import SessionMessageChunk, SessionMessageUpdate, SubagentUpdate
from duologue.conversation.work_state import TokenUsage
from duologue.protocol.values import Provider
from duologue.runtime.handlers import Context
from duologue.schema import v1
from duologue.store.memory import MemoryStore
from tests.agent.wire_client import RecordingClient


class SampleSettings(Settings):
    mode = choice("ask", "write", category="mode")
    model = choice("small", "large", category="model")
    deep = toggle(False, name="Deep search")


@dataclass
class Release:
    """A form."""

    version: str
    announce: bool = True


@dataclass
class StatsQuery:
    since: str = ""


@dataclass
class Stats:
    notes: int


def complete_agent(**options: Any) -> tuple[Agent[SampleSettings], Providers]:
    """Return the agent and its providers; everything unstable is on unless the options differ."""
    options = {"unstable": True, "legacy_models": True, **options}
    agent: Agent[SampleSettings] = Agent(
        "complete",
        version="1.0",
        title="Complete",
        settings=SampleSettings,
        accepts=("image", "audio", "resource"),
        system_prompt="override",
        login_required=True,
        **options,
    )
    logged_in: list[str] = []

    @agent.login("key", "With a key")
    async def login() -> None:
        logged_in.append("key")

    agent.login_in_terminal("wizard", "In a terminal", args=("--login",), env={"WIZARD": "1"})

    @agent.on_logout
    async def logout() -> None:
        logged_in.clear()

    @agent.on_login_status
    async def status() -> str:
        return "authenticated" if logged_in else "unauthenticated"

    @agent.command("clear", "Forget everything", hint="what")
    async def clear(turn: Turn[SampleSettings], argument: str) -> None:
        await turn.say(f"cleared {argument}")

    @agent.extension("_notes/stats")
    async def stats(query: StatsQuery) -> Stats:
        return Stats(notes=len(query.since))

    agent.on_prompt(everything)
    agent.persist_sessions(MemoryStore())
    providers = agent.use_providers(
        Provider(provider_id="main", supported=["anthropic"], required=True),
        Provider(provider_id="spare", supported=["openai", "azure"]),
    )
    return agent, providers


async def everything(turn: Turn[SampleSettings]) -> None:
    """Say and ask everything that a turn can."""
    await turn.think("hm")
    await turn.say("hello")
    await turn.send_user_message("from elsewhere")
    await turn.plan("Read", "Write")
    await turn.plan("Look around", plan_id="side")
    await turn.plan_document("notes", uri="file:///plan.md")
    await turn.plan_document("words", markdown="# Plan")
    await turn.remove_plan("side")
    await turn.files.write("a.txt", "text\n")
    async with turn.tool("Edit a.txt", kind="edit", locations=["a.txt"]) as edit:
        await edit.diff("a.txt", None, "text\n")
        if await edit.request_permission():
            await edit.show(await turn.files.read("a.txt", line=1, limit=5))
    async with turn.terminal("sleep", "9") as terminal:
        await terminal.output()
        await terminal.kill()
        await terminal.wait()
    await turn.set_option(mode="write", deep=True)
    await turn.session.set_commands([])
    await turn.report_usage(used=1, size=2, cost=0.5)
    await turn.notify("Look", severity="warning", description="there")
    await turn.report_compaction("c1", "in_progress")
    await turn.send_compaction_chunk("c1", "in short")
    await turn.report_compaction("c1", "completed", summary="in short")
    await turn.set_title("A title")
    turn.tokens = TokenUsage(total=3, input=1, output=2)
    await _send_subagent_updates(turn)
    await _ask(turn)


async def _send_subagent_updates(turn: Turn[SampleSettings]) -> None:
    await turn.update(SubagentUpdate(session_id="child", title="Scout", state={"state": "running"}))
    await turn.update(SessionMessageUpdate(message_id="m", recipient_session_id="child", content=[TextContent("go")]))
    await turn.update(SessionMessageChunk(message_id="m", content=TextContent(" on")))


async def _ask(turn: Turn[SampleSettings]) -> None:
    if turn.client_capabilities.forms:
        await turn.elicit(Release, "What shall I release?")
    if turn.client_capabilities.urls:
        await turn.elicit_url("Please log in", "https://example.com/login", elicitation_id="ask")
        await turn.session.complete_elicitation("ask")


class ClientServices:
    """A client's services: files and terminals in memory, and an answer to every request."""

    def __init__(self, client: RecordingClient) -> None:
        self.files: dict[str, str] = {}
        self.terminals: dict[str, v1.CreateTerminalRequest] = {}
        self.released: list[str] = []
        self.output = "output"
        self.exit = v1.WaitForTerminalExitResponse(exit_code=0)
        self.form: dict[str, Any] = {"version": "2.0"}
        on = client.handlers.on
        on(v1.FS_READ_TEXT_FILE)(self._read)
        on(v1.FS_WRITE_TEXT_FILE)(self._write)
        on(v1.TERMINAL_CREATE)(self._create)
        on(v1.TERMINAL_OUTPUT)(self._output)
        on(v1.TERMINAL_WAIT_FOR_EXIT)(self._wait)
        on(v1.TERMINAL_KILL)(self._kill)
        on(v1.TERMINAL_RELEASE)(self._release)
        on(v1.ELICITATION_CREATE)(self._elicit)
        client.answer_permission()

    async def _read(self, context: Context, params: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
        return v1.ReadTextFileResponse(content=self.files[params.path])

    async def _write(self, context: Context, params: v1.WriteTextFileRequest) -> v1.WriteTextFileResponse:
        self.files[params.path] = params.content
        return v1.WriteTextFileResponse()

    async def _create(self, context: Context, params: v1.CreateTerminalRequest) -> v1.CreateTerminalResponse:
        terminal_id = f"term_{len(self.terminals)}"
        self.terminals[terminal_id] = params
        return v1.CreateTerminalResponse(terminal_id=terminal_id)

    async def _output(self, context: Context, params: v1.TerminalOutputRequest) -> v1.TerminalOutputResponse:
        return v1.TerminalOutputResponse(output=self.output, truncated=False)

    async def _wait(self, context: Context, params: v1.WaitForTerminalExitRequest) -> v1.WaitForTerminalExitResponse:
        return self.exit

    async def _kill(self, context: Context, params: v1.KillTerminalRequest) -> v1.KillTerminalResponse:
        return v1.KillTerminalResponse()

    async def _release(self, context: Context, params: v1.ReleaseTerminalRequest) -> v1.ReleaseTerminalResponse:
        self.released.append(params.terminal_id)
        return v1.ReleaseTerminalResponse()

    async def _elicit(self, context: Context, params: v1.CreateElicitationRequest) -> v1.CreateElicitationResponse:
        return v1.ElicitationAcceptAction(content=self.form)
