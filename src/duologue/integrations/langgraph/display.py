"""Updates of a turn from the stream of a run: text, thoughts, tool calls with their results, the custom stream."""

# LangGraph and LangChain are only partly typed.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage

from duologue.agent.tool_call import ToolCallHandle
from duologue.agent.turn import Turn
from duologue.conversation.work_state import FINAL_STATUSES, ToolKind
from duologue.integrations.langgraph.messages import messages_in
from duologue.integrations.tool_calls import ToolCalls, to_json, tool_title
from duologue.sanitize import quote

_log = logging.getLogger("duologue.integrations")

_RAISED = re.compile(r"Error: (?P<error>(?:(?P<name>\w+)\()?.*)\n Please fix your mistakes\.", re.DOTALL)
"""Text that `ToolNode(handle_tool_errors=True)` sends the model about any exception; it may have secrets."""


class GraphDisplay:
    """Shows the messages of a run once each, although the stream repeats them.

    Attributes:
        tools: The tool calls of the turn.
        earlier_ids: Ids of messages of earlier turns: a subgraph that is a node returns them again.
    """

    def __init__(self, turn: Turn[Any], kinds: Mapping[str, ToolKind]) -> None:
        self.tools = ToolCalls(turn, kinds)
        self.earlier_ids: set[str | None] = set()
        self._turn = turn
        self._calls: dict[str, tuple[str, Any]] = {}
        self._sent_ids: set[str] = set()

    def pending_call(self, name: str, arguments: Any) -> ToolCallHandle | None:
        """Return the tool call with this name and these arguments that waits to be run."""
        for call_id, call in self._calls.items():
            if call == (name, arguments) and self.tools.handles[call_id].status == "pending":
                return self.tools.handles[call_id]
        return None

    @property
    def open_calls(self) -> dict[str, ToolCallHandle]:
        """The tool calls that have not ended, by id."""
        return {key: tool for key, tool in self.tools.handles.items() if tool.status not in FINAL_STATUSES}

    async def show_message(self, message: BaseMessage) -> None:
        """Send text and thoughts: chunks from a model that streams, or a complete message from a node."""
        if not isinstance(message, AIMessage) or message.id in self.earlier_ids:
            return
        if not isinstance(message, AIMessageChunk) and message.id in self._sent_ids:
            return
        if message.id is not None:
            self._sent_ids.add(message.id)
        for block in message.content_blocks:
            if block["type"] == "text" and block["text"]:
                await self._turn.say(block["text"])
            elif block["type"] == "reasoning" and (thought := block.get("reasoning")):
                await self._turn.think(thought)

    async def show_change(self, change: Any) -> None:
        """Show the tool calls and results in a change of the state."""
        for message in messages_in(change):
            if message.id in self.earlier_ids:
                continue
            if isinstance(message, AIMessage):
                for call in message.tool_calls:
                    await self._tool(call["id"] or "", call["name"], call["args"])
            elif isinstance(message, ToolMessage):
                await self._result(message)

    async def show_custom(self, turn: Turn[Any], value: Any) -> None:
        """Show what a node or tool wrote to the custom stream: in the only open tool call, or else as a thought."""
        text = value if isinstance(value, str) else to_json(value)
        running = self.open_calls
        if len(running) == 1:
            await next(iter(running.values())).show(text)
        else:
            await turn.think(f"{text}\n")

    async def _tool(self, call_id: str, name: str, arguments: Any) -> None:
        before = self._calls.get(call_id)
        self._calls[call_id] = (name, arguments)
        if before is None:
            await self.tools.open(call_id, name, arguments)
        elif before != (name, arguments):  # sent again: an approval has changed its arguments
            known = self.tools.handles[call_id]
            await known.update(title=tool_title(name, arguments), status=known.status, raw_input=arguments)

    async def _result(self, message: ToolMessage) -> None:
        text = message.content if isinstance(message.content, str) else str(message.content)
        is_error = message.status == "error"
        if is_error and not self._turn.session._debug:
            text = _without_exception(message, text)
        await self.tools.finish(message.tool_call_id, text, text, is_error=is_error)


def _without_exception(message: ToolMessage, text: str) -> str:
    """Return the text of a failed tool for the client: of an exception that was not written for a reader its class."""
    raised = _RAISED.fullmatch(text)
    if raised is None or raised["name"] == "ToolException":
        return text
    _log.warning("the tool %s failed: %s", quote(message.name), quote(raised["error"]))
    return f"{raised['name'] or 'an exception'} (its text is in the log of the agent)"
