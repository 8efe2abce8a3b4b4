"""`code_agent()`: the coding agent as an agent of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_ai.workspaces import Workspace
from pydantic_ai_harness.bubblewrap_sandbox import BubblewrapWorkspace

import duologue
from duologue.agent.agent import Agent
from duologue.agent.turn import Turn
from duologue.coder.capabilities import coding_agent
from duologue.coder.commands import PROMPTS, add_undo
from duologue.coder.failures import end_turn
from duologue.coder.models import NO_MODEL, ModelTable
from duologue.coder.modes import KINDS, CodeSettings
from duologue.coder.policy import TurnPolicy
from duologue.coder.titles import title_of
from duologue.coder.turn import CodeTurn
from duologue.coder.undo import CodeStore, TurnCopies
from duologue.coder.workspace import COMMAND_TOOL, GuardedWorkspace
from duologue.conversation.content import Content
from duologue.conversation.session_setup import McpServer
from duologue.errors import InternalError, InvalidParams
from duologue.integrations.prompt_commands import add_prompt_commands
from duologue.integrations.pydantic_ai.commands import add_commands
from duologue.integrations.pydantic_ai.editor_workspace import SEARCHES, EditorWorkspace
from duologue.integrations.pydantic_ai.modes import settings_type
from duologue.integrations.pydantic_ai.run import PydanticRun, RunOptions


@dataclass(frozen=True, kw_only=True)
class CodeOptions:
    """Options of the coding agent.

    Attributes:
        models: The models to choose from, the first for new sessions; without any, prompts are answered with an error
            that says what to set.
        data: Directory of the sessions and of the copies for `/undo`.
        rules: Files with permission rules, for the mode `auto`.
        memory: File of the decisions that are remembered for a directory.
        context_window: Tokens that the models take, if the library does not know.
        model_timeout: Seconds that a model may take to begin or continue its answer.
        mcp_servers: MCP servers of every session, in addition to those that a client names.
        has_sandbox: Run commands in a sandbox of bubblewrap: without network, writing to the session's directory only.
        protocol_versions: Versions of the protocol to speak.
    """

    models: ModelTable
    data: Path
    rules: tuple[Path, ...] = ()
    memory: Path | None = None
    context_window: int | None = None
    model_timeout: float = 300.0
    mcp_servers: tuple[McpServer, ...] = ()
    has_sandbox: bool = False
    protocol_versions: tuple[int, ...] = (1,)


def code_agent(options: CodeOptions) -> Agent[Any]:
    """Return the coding agent."""
    store = CodeStore(options.data)
    served: Agent[Any] = Agent(
        "code",
        version=duologue.__version__,
        title="duologue code",
        settings=settings_type(CodeSettings, options.models, {}),
        accepts=("image", "resource"),
        mcp=options.mcp_servers,
        steering=True,
        auto_title=True,
        protocol_versions=options.protocol_versions,
        unstable=True,
        store=store,
    )
    library_agent = coding_agent(context_window=options.context_window)

    def code_turn(turn: Turn[Any]) -> CodeTurn:
        policy = TurnPolicy(turn, list(options.rules), options.memory)
        copies = TurnCopies(store.copies(turn.session.id))
        files = commands = workspace_of(turn)
        if options.has_sandbox:
            # Not in the editor's terminal: that would show, and ask about, how the sandbox is made.
            commands = BubblewrapWorkspace(workspace_of(turn, searches=[*SEARCHES, COMMAND_TOOL]))
        return CodeTurn(turn, GuardedWorkspace(files, commands, policy, copies), options.context_window)

    settings = {"model_settings": {"timeout": options.model_timeout}}
    shared = RunOptions(code_turn, KINDS, options.models, {}, lambda turn: settings, title_of)

    async def run(turn: Turn[Any], prompt: list[Content]) -> str:
        if not options.models:
            raise InvalidParams(NO_MODEL)
        try:
            return await PydanticRun(library_agent, turn, shared).run(prompt)
        except InternalError as error:
            return await end_turn(turn, error)

    @served.on_prompt
    async def answer(turn: Turn[Any]) -> str:
        return await run(turn, turn.prompt)

    add_commands(served, library_agent, shared)
    add_prompt_commands(served, PROMPTS, run)
    add_undo(served, store, workspace_of)
    return served


def workspace_of(turn: Turn[Any], searches: Sequence[str] = SEARCHES) -> Workspace:
    """Return the files and commands of a turn; those of `searches` run on this machine."""
    return Workspace(EditorWorkspace(turn, policy=lambda request: "allow", searches=searches, shows_changes=False))
