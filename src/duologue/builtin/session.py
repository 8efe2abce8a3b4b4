"""Commands about the session itself: modes, options, compaction, other sessions."""

from __future__ import annotations

from duologue import Turn
from duologue.agent.permission import Asked
from duologue.builtin.knobs import Knobs
from duologue.builtin.registry import command
from duologue.conversation.content import TextContent
from duologue.conversation.updates import (
    Command,
    SessionMessageChanged,
    SessionMessageChunk,
    SubagentChanged,
    ToolCallChanged,
)
from duologue.dialects.terms import PermissionOption
from duologue.errors import InvalidParams

__all__: list[str] = []


@command("mode", "Switch the mode", shows="current_mode_update", hint="ask|architect|code")
async def mode(turn: Turn[Knobs], argument: str) -> None:
    """From the agent's side."""
    if argument:
        await _set(turn, mode=argument)
    await turn.say(f"The mode is `{turn.settings.mode}`.\n")


@command("config", "Show or change the settings", shows="config options", hint="[name value]")
async def config(turn: Turn[Knobs], argument: str) -> None:
    """All of them, or one changed from the agent's side."""
    name, _, value = argument.partition(" ")
    if name:
        await _set(turn, **{name: value == "true" if value in ("true", "false") else value})
    for setting in turn.settings.describe():
        await turn.say(f"- {setting.name} (`{setting.setting_id}`): `{setting.value}`\n")


@command("exit-plan", "Offer to leave architect mode and start working", shows="switch_mode tools with permission")
async def exit_plan(turn: Turn[Knobs], argument: str) -> None:
    """The pattern of agents that plan before they act."""
    options = [
        PermissionOption(option_id="code", name="Yes, and go ahead", kind="allow_always"),
        PermissionOption(option_id="ask", name="Yes, and ask before each step", kind="allow_once"),
        PermissionOption(option_id="reject", name="No, keep planning", kind="reject_once"),
    ]
    async with turn.tool("Ready to implement the plan", kind="switch_mode") as tool:
        await tool.show("1. Look around\n2. Do the work\n3. Check the result")
        patch = ToolCallChanged(tool_call_id=tool.tool_call_id, title=tool.title, kind=tool.kind)
        chosen = await turn.ask_permission(Asked(patch, f"exit-plan {tool.tool_call_id}"), options)
        if chosen is None or chosen.option_id == "reject":
            await tool.fail("the plan was not approved")
            await turn.say("I keep planning.\n")
            return
    await turn.set(mode=chosen.option_id)
    await turn.say(f"The mode is `{turn.settings.mode}` now.\n")


@command("compact", "Shorten the context", shows="compaction_update, compaction_summary_chunk")
async def compact(turn: Turn[Knobs], argument: str) -> None:
    """A summary written piece by piece, then whole."""
    name = turn.session.new_id("compaction")
    await turn.compaction(name, "in_progress")
    for piece in ("We talked. ", "It went well."):
        await turn.compaction_chunk(name, piece)
    await turn.compaction(name, "completed", summary="We talked. It went well.")
    await turn.say("The context was shortened.\n")


@command("commands", "Offer one more command", shows="available_commands_update")
async def commands(turn: Turn[Knobs], argument: str) -> None:
    """The list is always the complete list."""
    from duologue.builtin.registry import COMMANDS

    offered = [Command(each.name, each.description, each.hint) for each in COMMANDS.values()]
    await turn.session.commands([*offered, Command("not-there", "A command that was added later and does nothing")])
    await turn.say("There is one more command now, `/not-there`.\n")


@command("subagent", "Start another session and tell of it", shows="subagent_update (unstable)")
async def subagent(turn: Turn[Knobs], argument: str) -> None:
    """Only clients that know subagents see it."""
    child = turn.session.new_id("sess")
    await turn.update(
        SubagentChanged(
            session_id=child, title="Scout", state={"state": "running"}, can_cancel=False, cwd=str(turn.cwd)
        )
    )
    await turn.update(SubagentChanged(session_id=child, state={"state": "idle", "stopReason": "end_turn"}))
    await turn.say("A subagent looked around and came back.\n")


@command("session-message", "Send a message between sessions", shows="session_message (unstable)")
async def session_message(turn: Turn[Knobs], argument: str) -> None:
    """Only clients that know subagents see it."""
    name = turn.session.new_id("msg")
    await turn.update(
        SessionMessageChanged(message_id=name, sender_session_id=turn.session.id, content=[TextContent("Found ")])
    )
    await turn.update(SessionMessageChunk(message_id=name, content=TextContent("nothing.")))
    await turn.say("One session wrote to another.\n")


async def _set(turn: Turn[Knobs], **values: str | bool) -> None:
    try:
        await turn.set(**values)
    except InvalidParams as error:
        await turn.say(f"That cannot be set: {error.message}\n")
