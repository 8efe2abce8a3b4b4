"""Commands that work with more than one session (unstable); only clients with subagents see it."""

from __future__ import annotations

import asyncio
from itertools import islice

from duologue import Turn
from duologue.builtin.search import find_files
from duologue.builtin.settings import BuiltinSettings
from duologue.builtin.slash_command import command
from duologue.conversation.content import JsonObject, TextContent
from duologue.conversation.updates import (
    ContentPart,
    MessageChunk,
    SessionMessageChunk,
    SessionMessageUpdate,
    SubagentUpdate,
    ToolCallUpdate,
)

MAX_COUNTED = 10_000
"""Files that a subagent counts, so that it ends soon."""


@command("subagent", "Have another session count the files", shows="`subagent_update`, a session of its own (unstable)")
async def subagent(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Run a subagent that works for real and sends updates under its own session id."""
    child, task = turn.session.new_id("sess"), [TextContent("How many files are there?")]
    running: JsonObject = {"state": "running"}
    await turn.update(
        SubagentUpdate(session_id=child, title="Scout", state=running, can_cancel=False, cwd=str(turn.cwd))
    )
    sent, received = turn.session.new_id("msg"), turn.session.new_id("msg")
    await turn.update(SessionMessageUpdate(message_id=sent, recipient_session_id=child, content=[*task]))
    message = SessionMessageUpdate(
        message_id=received, sender_session_id=turn.session.id, sender_message_id=sent, content=[*task]
    )
    try:
        await turn.session.update_subagent(child, message)
        found = await _count_files(turn, child)
    except BaseException:
        await turn.send_final_update(
            SubagentUpdate(session_id=child, state={"state": "idle", "stopReason": "cancelled"})
        )
        raise
    await turn.update(SubagentUpdate(session_id=child, state={"state": "idle", "stopReason": "end_turn"}))
    await turn.say(f"A subagent looked around. It said: {found}\n")


@command("session-message", "Send a message between sessions", shows="`session_message` (unstable)")
async def session_message(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Send a session message in two chunks."""
    name = turn.session.new_id("msg")
    start = SessionMessageUpdate(message_id=name, sender_session_id=turn.session.id, content=[TextContent("I found ")])
    await turn.update(start)
    await turn.update(SessionMessageChunk(message_id=name, content=TextContent("nothing.")))
    await turn.say("One session wrote to another.\n")


COMMANDS = (subagent, session_message)


async def _count_files(turn: Turn[BuiltinSettings], child: str) -> str:
    call = turn.session.new_id("call")
    start = ToolCallUpdate(is_new=True, tool_call_id=call, title="List files", kind="search", status="in_progress")
    await turn.session.update_subagent(child, start)
    roots = turn.session.setup.roots
    found = await asyncio.to_thread(lambda: sum(1 for _ in islice(find_files(roots), MAX_COUNTED)))
    answer = TextContent(f"I see {found:,} files.")
    await turn.session.update_subagent(
        child, ToolCallUpdate(tool_call_id=call, status="completed", content=[ContentPart(answer)])
    )
    await turn.session.update_subagent(
        child, MessageChunk(role="agent", content=answer, message_id=turn.session.new_id("msg"))
    )
    return answer.text
