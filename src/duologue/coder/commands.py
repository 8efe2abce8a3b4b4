"""Slash commands of the coding agent, in addition to those of the adapter (`/model`, `/compact`, `/clear`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.workspaces import Workspace, WorkspaceError

from duologue.agent.agent import Agent
from duologue.agent.turn import Turn
from duologue.coder.undo import CodeStore, undo_last_turn
from duologue.integrations.pydantic_ai.history import load_history, save_history

PROMPTS = {
    "init": (
        "Write AGENTS.md for this project, or improve it.\n\n"
        "Say what the project is, how to build, test and check it, where things are, and the conventions that a "
        "newcomer would get wrong. Read the build files, the configuration of its checks and some of its code first. "
        "Keep it under 100 lines and say only what is true of this project. {argument}"
    ),
    "review": (
        "Review changes for mistakes, and change nothing.\n\nThe subject: {argument}\n"
        "Without a subject, review what is not committed yet (`git diff HEAD` and new files). For each finding say the "
        "file and line, what goes wrong for which input, and how bad it is; the worst first. Say so if there are none."
    ),
}
"""Prompts by the slash command that sends them; the first line describes it."""


def add_undo(agent: Agent[Any], store: CodeStore, workspace_of: Callable[[Turn[Any]], Workspace]) -> None:
    """Register `/undo`; `workspace_of` returns the files of a turn, without its rules: the user asks for it."""

    @agent.command("undo", "Restore the files that the last turn changed")
    async def undo(turn: Turn[Any], argument: str) -> None:
        try:
            restored, refused = await undo_last_turn(store.copies(turn.session.id), workspace_of(turn))
        except LookupError as error:
            await turn.say(f"There is nothing to undo: {error.args[0]}.\n")
            return
        except (OSError, ValueError, WorkspaceError) as error:
            await turn.say(f"The files could not be restored: {error}\n")
            return
        lines = [f"- restored `{_shown(turn, path)}`" for path in restored]
        lines += [f"- not restored `{_shown(turn, path)}`: it was changed since" for path in refused]
        await turn.say("\n".join([*lines, ""]))
        if restored:
            names = ", ".join(_shown(turn, path) for path in restored)
            note = f"(The user has undone your changes to {names}; the files are as they were before them.)"
            history = load_history(turn.session)
            save_history(turn.session, [*history, ModelRequest(parts=[UserPromptPart(note)])])


def _shown(turn: Turn[Any], path: str) -> str:
    return path.removeprefix(f"{turn.cwd}/")
