"""The actions of an agent for one request of the client, reduced to those that two runs have in common."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from duologue.trace.frames import TracedFrame
from duologue.trace.replay.script import Exchange, ReplayScript, items, members, message_of, update_of


class Act(Struct):
    """Something an agent did that must happen in the same order again: a tool call, a request, the end of a turn.

    Attributes:
        label: What it is, without any text of a model.
        frame: Its first frame.
    """

    label: str
    frame: TracedFrame


class AgentTurn:
    """A request of the client, with what the agent did.

    Attributes:
        request: The client's request; None for what the agent sent before any.
        response: The agent's response.
        frames: Requests and notifications of the agent, in order.
    """

    def __init__(self, exchange: Exchange | None) -> None:
        self.request = None if exchange is None else exchange.request
        self.response = None if exchange is None else exchange.response
        self.frames = [] if exchange is None else exchange.from_agent

    @property
    def kinds(self) -> dict[str, TracedFrame]:
        """Kinds of updates and other notifications, each with its first frame."""
        found: dict[str, TracedFrame] = {}
        for frame in self.frames:
            if frame.kind == "notification":
                found.setdefault(frame.update or frame.method, frame)
        return found

    def acts(self) -> list[Act]:
        """Return what the agent did, in order."""
        acts: list[Act] = []
        calls: dict[str, tuple[Act, dict[str, Any]]] = {}
        for frame in self.frames:
            if frame.update in ("tool_call", "tool_call_update"):
                self._add_tool_call(update_of(frame), frame, acts, calls)
            elif frame.kind == "request":
                acts.append(Act(_request_label(frame), frame))
            elif frame.update == "current_mode_update":
                acts.append(Act(f"mode {update_of(frame).get('currentModeId')}", frame))
            elif frame.update == "state_update" and "stopReason" in update_of(frame):
                acts.append(Act(f"end of the turn: {update_of(frame)['stopReason']}", frame))
        for act, call in calls.values():
            act.label = f"tool call ({call.get('kind') or 'other'}): {call.get('status') or 'pending'}"
        return acts

    def _add_tool_call(
        self, update: dict[str, Any], frame: TracedFrame, acts: list[Act], calls: dict[str, tuple[Act, dict[str, Any]]]
    ) -> None:
        call_id = str(update.get("toolCallId"))
        if call_id not in calls:
            calls[call_id] = Act("", frame), {}
            acts.append(calls[call_id][0])
        calls[call_id][1].update({name: value for name, value in update.items() if value is not None})

    def texts(self) -> dict[str, str]:
        """Return the whole text of each kind of message, and the titles of tool calls."""
        texts: dict[str, list[str]] = {}
        for frame in self.frames:
            if frame.kind != "notification":
                continue
            update = update_of(frame)
            if frame.update in ("tool_call", "tool_call_update"):
                if isinstance(title := update.get("title"), str):
                    texts.setdefault("tool call titles", []).append(f"{title}\n")
            elif text := _text_in(update.get("content")):
                texts.setdefault(frame.update.removesuffix("_chunk"), []).append(text)
        return {kind: "".join(parts) for kind, parts in texts.items()}


def turns_of(script: ReplayScript) -> list[AgentTurn]:
    """Return what the agent did for each request of the client, first what it did before any.

    What followed from a notification belongs to the request before it.
    """
    turns = [AgentTurn(None)]
    for exchange in script.exchanges:
        if exchange.request is not None and exchange.request.kind == "request":
            turns.append(AgentTurn(exchange))
        else:
            turns[-1].frames.extend(exchange.from_agent)
    return turns


def _request_label(frame: TracedFrame) -> str:
    options = items(members(message_of(frame).get("params")).get("options"))
    kinds = [str(members(each).get("kind")) for each in options]
    return f"{frame.method} ({', '.join(kinds)})" if kinds else frame.method


def _text_in(content: object) -> str:
    """Return the text of a content block, or of several."""
    if isinstance(content, list):
        return "".join(_text_in(each) for each in items(content))  # pyright: ignore[reportUnknownArgumentType]
    text = members(content).get("text")
    return text if isinstance(text, str) else ""
