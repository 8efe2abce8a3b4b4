"""The conversation in a recording: prompts, messages, tool calls, permissions, plans, and how turns end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from duologue.conversation.content import (
    AudioContent,
    Content,
    ImageContent,
    Resource,
    ResourceLink,
    TextContent,
)
from duologue.conversation.updates import (
    BackgroundTaskUpdate,
    CompactionUpdate,
    InfoUpdate,
    MessageChunk,
    MessageUpdate,
    ModeUpdate,
    NoticeUpdate,
    PlanUpdate,
    StateUpdate,
    SubagentUpdate,
    ToolCallUpdate,
    ToolContentChunk,
    UnrecognizedUpdate,
    Update,
)
from duologue.errors import InvalidParams
from duologue.protocol.observation import ends_turn, observe
from duologue.schema.lenient_errors import is_object
from duologue.trace.frames import TracedFrame
from duologue.trace.item_queue import ConversationItem, ItemQueue
from duologue.trace.tool_states import ToolStates

MAX_REMEMBERED = 10_000
"""Requests and prompts that are remembered until they are answered."""

_OPENING = ("session/new", "session/load", "session/resume", "session/fork")
_SILENT = ("terminal/output", "terminal/release", "session/list")
"""Requests that say nothing about the conversation."""
_ARGUMENTS = ("path", "command", "message", "modeId", "modelId", "configId", "methodId", "terminalId", "title")
"""Parameters of which the first is shown with a request."""


class _Asked(Struct):
    """A request without an answer: what it is about, and the names and kinds of its options."""

    title: str
    options: dict[str, tuple[str, str]] = {}


class ConversationReader:
    """Reads the items of a conversation from the frames of its recording, in bounded memory."""

    def __init__(self) -> None:
        self._queue = ItemQueue()
        self._tools = ToolStates()
        self._asked: dict[int, _Asked] = {}
        self._prompted: dict[str, float] = {}
        """Time of the running prompt of each session."""

    def read(self, frames: Iterable[TracedFrame]) -> Iterator[ConversationItem]:
        """Yield the items that are complete; `rest` yields the others."""
        for frame in frames:
            self._add(frame)
            yield from self._queue.ready()

    def rest(self) -> Iterator[ConversationItem]:
        """Yield the items that might have grown, at the end or for now."""
        return self._queue.rest()

    def _add(self, frame: TracedFrame) -> None:
        at = ConversationItem(number=frame.number, t=frame.t, kind="invalid", session=frame.session)
        match frame.kind:
            case "stderr":
                self._queue.add_text(structs.replace(at, kind="stderr", text=frame.entry.stderr or ""))
            case "exit":
                self._queue.add(structs.replace(at, kind="exit", status=str(frame.entry.exit_code)))
            case "gap":
                self._queue.add(structs.replace(at, kind="gap", text=str(frame.entry.gap)))
            case "invalid":
                self._queue.add(structs.replace(at, text=frame.entry.text or frame.problems[0].message))
            case "request" | "notification":
                self._call(frame, at)
            case "response" | "error":
                self._response(frame, at)

    # --- requests and notifications

    def _call(self, frame: TracedFrame, at: ConversationItem) -> None:
        params = _part(frame, "params")
        try:
            observed = observe(frame.version, frame.method, params)
        except InvalidParams as error:
            self._queue.add(structs.replace(at, title=frame.method, text=str(error)))
            return
        if frame.kind == "request":
            self._remember(frame, params)
        if frame.method == "session/cancel":
            self._queue.add(structs.replace(at, kind="update", title="cancel"))
        if observed is None:
            return
        if observed.prompt or observed.steering:
            self._prompt(at, observed.prompt or observed.steering, is_steering=not observed.prompt)
        for update in observed.updates:
            self._update(frame, at, update)
        if frame.method == "session/request_permission":
            self._permission(frame, at, params)

    def _remember(self, frame: TracedFrame, params: Raw) -> None:
        fields = _object(params)
        argument = next((str(fields[name]) for name in _ARGUMENTS if fields.get(name)), "")
        if frame.method in _OPENING:
            argument = str(fields.get("cwd") or "")
        if frame.method == "initialize":
            argument = _implementation(fields.get("clientInfo") or fields.get("info"))
        if len(self._asked) >= MAX_REMEMBERED:
            self._asked.pop(next(iter(self._asked)))
        self._asked[frame.number] = _Asked(argument[:1000])

    def _prompt(self, at: ConversationItem, prompt: Sequence[Content], *, is_steering: bool) -> None:
        status = "steering" if is_steering else ""
        self._queue.add(structs.replace(at, kind="prompt", text="".join(map(_shown, prompt)), status=status))
        if not is_steering:
            if len(self._prompted) >= MAX_REMEMBERED:
                self._prompted.pop(next(iter(self._prompted)))
            self._prompted[at.session] = at.t

    def _permission(self, frame: TracedFrame, at: ConversationItem, params: Raw) -> None:
        fields = _object(params)
        call: Any = fields.get("toolCall") or (_members(fields.get("subject")).get("toolCall"))
        tool_call_id = str(_members(call).get("toolCallId", ""))
        tool = self._tools.get(at.session, tool_call_id)
        title = str(fields.get("title") or (tool.title if tool is not None else ""))
        options = [_members(each) for each in fields.get("options") or ()]
        asked = {
            str(each.get("optionId")): (str(each.get("name", "")), str(each.get("kind", ""))) for each in options[:100]
        }
        self._asked[frame.number] = _Asked(title, asked)
        names = [name for name, _ in asked.values()]
        self._queue.add(structs.replace(at, kind="permission", title=title, tool_call_id=tool_call_id, options=names))

    # --- updates

    def _update(self, frame: TracedFrame, at: ConversationItem, update: Update) -> None:
        match update:
            case MessageChunk():
                if update.role != "user" or at.session not in self._prompted:  # else it repeats the prompt
                    item = structs.replace(at, kind="message", role=update.role, text=_shown(update.content))
                    self._queue.add_text(item, update.message_id)
            case MessageUpdate():
                if update.content and (update.role != "user" or at.session not in self._prompted):
                    text = "".join(map(_shown, update.content))
                    item = structs.replace(at, kind="message", role=update.role, text=text)
                    self._queue.add_text(item, update.message_id, replaces=True)
            case ToolCallUpdate() | ToolContentChunk():
                changed = self._tools.update(at, update, frame.size)
                if changed is not None and frame.method != "session/request_permission":
                    self._queue.add(changed)
            case PlanUpdate():
                text = update.markdown or update.uri or ""
                self._queue.add(structs.replace(at, kind="plan", entries=update.entries or [], text=text))
            case StateUpdate():
                if ends_turn(frame.version, update=update) and at.session in self._prompted:
                    text = update.error.message if update.error is not None else ""
                    self._stop(at, update.stop_reason or "ended", text)
            case _:
                self._other(at, update)

    def _other(self, at: ConversationItem, update: Update) -> None:
        match update:
            case ModeUpdate():
                shown = "mode", update.mode_id
            case NoticeUpdate():
                shown = update.severity, ": ".join(filter(None, [update.title, update.description]))
            case CompactionUpdate():
                shown = "compaction", update.error or update.status
            case SubagentUpdate():
                state = update.state.get("state", "") if isinstance(update.state, dict) else ""
                shown = "subagent", f"{_text(update.title) or update.session_id} {state}".strip()
            case BackgroundTaskUpdate():
                shown = "background task", f"{_text(update.title) or update.task_id} {_text(update.state)}".strip()
            case InfoUpdate() if isinstance(update.title, str):
                shown = "title", update.title
            case UnrecognizedUpdate():
                shown = update.tag or "?", "unknown update"
            case _:
                return  # settings, commands, usage and terminals are seen in the wire view
        self._queue.add(structs.replace(at, kind="update", title=shown[0], text=shown[1]))

    def _stop(self, at: ConversationItem, reason: str, text: str = "") -> None:
        began = self._prompted.pop(at.session, None)
        seconds = None if began is None else round(at.t - began, 6)
        self._queue.add(structs.replace(at, kind="stop", status=reason, text=text, seconds=seconds))

    # --- responses

    def _response(self, frame: TracedFrame, at: ConversationItem) -> None:
        asked = self._asked.pop(frame.answers or 0, None)
        if frame.kind == "error":
            error = _object(_part(frame, "error"))
            text = f"{error.get('message', '')} ({error.get('code', '')})"
            if frame.method == "session/prompt":
                self._stop(at, "error", text)
            else:
                self._queue.add(structs.replace(at, kind="error", title=frame.method, text=text))
            return
        result = _object(_part(frame, "result"))
        item = structs.replace(at, title=frame.method, seconds=frame.latency)
        if frame.method == "initialize":
            agent = _implementation(result.get("agentInfo") or result.get("info"))
            sides = " and ".join(filter(None, [asked.title if asked else "", agent]))
            text = f"{sides or 'connected'}, protocol version {frame.version}"
            self._queue.add(structs.replace(item, kind="connection", text=text))
        elif frame.method in _OPENING:
            self._queue.add(structs.replace(item, kind="session", text=asked.title if asked else ""))
        elif frame.method == "session/prompt":
            if ends_turn(frame.version, answered=frame.method):
                self._stop(at, str(result.get("stopReason", "ended")))
        elif frame.method == "session/request_permission":
            self._permission_answer(item, asked, result)
        elif frame.answers is not None and frame.method not in _SILENT:
            details = [asked.title if asked else "", _outcome(result)]
            self._queue.add(structs.replace(item, kind="request", text=" → ".join(filter(None, details))))

    def _permission_answer(self, item: ConversationItem, asked: _Asked | None, result: dict[str, Any]) -> None:
        outcome = _members(result.get("outcome"))
        chosen = str(outcome.get("optionId") or outcome.get("outcome", ""))
        name, kind = (asked.options if asked else {}).get(chosen, (chosen, ""))
        title = asked.title if asked else ""
        self._queue.add(structs.replace(item, kind="permission_answer", title=title, text=name, status=kind))


def _part(frame: TracedFrame, name: str) -> Raw:
    """Return `params`, `result` or `error` of a message."""
    assert isinstance(frame.entry.frame, Raw), "it is a message"
    members = msgspec.json.decode(frame.entry.frame, type=dict[str, Raw])
    return members.get(name, Raw(b"{}"))


def _object(part: Raw) -> dict[str, Any]:
    try:
        return _members(msgspec.json.decode(part))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def _members(value: Any) -> dict[str, Any]:
    return value if is_object(value) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _implementation(info: Any) -> str:
    members = _members(info)
    return f"{members.get('title') or members.get('name', '')} {members.get('version', '')}".strip()[:200]


def _outcome(result: dict[str, Any]) -> str:
    """Return the part of a result that is worth a word."""
    if "exitCode" in result or "signal" in result:
        return f"exit code {result.get('exitCode')}" if result.get("signal") is None else str(result["signal"])
    return str(result["action"]) if isinstance(result.get("action"), str) else ""


def _shown(content: Content) -> str:
    match content:
        case TextContent():
            return content.text
        case ImageContent() | AudioContent():
            return f"[{content.mime_type}, {len(content.data) * 3 // 4:,} bytes]"
        case ResourceLink() | Resource():
            return f"[{content.uri}]"
        case _:
            return "[unknown content]"
