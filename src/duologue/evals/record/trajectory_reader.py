"""Derive the steps and the metrics of a trial from its recording."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from duologue.client.permissions.tool_input import read_input
from duologue.conversation.items import ToolCall
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import CompactionUpdate, ToolCallUpdate, ToolContentChunk, UsageUpdate
from duologue.errors import InvalidParams
from duologue.evals.record.result import TrialMetrics
from duologue.evals.record.trajectory import StepKind, TrajectoryStep
from duologue.protocol.observation import observe
from duologue.recording.reader import read_recording
from duologue.schema.lenient_errors import is_array, is_object
from duologue.trace.conversation import ConversationReader
from duologue.trace.frames import TracedFrame, Tracer
from duologue.trace.item_queue import ConversationItem

MAX_STEPS = 100_000
"""Steps of a trial that are read; a longer one ends with a step that says so."""

MAX_SESSIONS = 1000
"""Sessions whose tool calls are followed."""

_KINDS: dict[str, StepKind] = {"prompt": "prompt", "plan": "plan", "stop": "stop", "error": "error", "exit": "other"}
_REQUESTS: dict[str, StepKind] = {
    "fs/read_text_file": "file_read",
    "fs/write_text_file": "file_write",
    "terminal/create": "command",
    "elicitation/create": "elicitation",
    "session/request_permission": "permission",
}


class Trajectory(Struct, frozen=True):
    """The steps of a trial, and its metrics without the tokens and the cost, which the client counts."""

    steps: list[TrajectoryStep]
    metrics: TrialMetrics


class _Tool(Struct):
    number: int
    t: float
    ended: float | None = None
    call: ToolCall | None = None


def read_trajectory(recording: Path) -> Trajectory:
    """Return the steps and the metrics of a recorded trial.

    Raises:
        ValueError: The file is not a recording.
        OSError: The file cannot be read.
    """
    return TrajectoryReader().read(Tracer().trace(read_recording(recording)))


class TrajectoryReader:
    """Reads the steps of one trial."""

    def __init__(self) -> None:
        self._items = ConversationReader()
        self._steps: list[TrajectoryStep] = []
        self._open: dict[int, TrajectoryStep] = {}
        """Requests of the agent to its client, by the numbers of their frames."""
        self._options: dict[int, dict[str, str]] = {}
        self._transcripts: dict[str, Transcript] = {}
        self._tools: dict[tuple[str, str], _Tool] = {}
        self._first_prompt: float | None = None
        self._last: float | None = None
        self._first_update: float | None = None
        self._context_peak: int | None = None
        self._compactions: set[str] = set()

    def read(self, frames: Iterable[TracedFrame]) -> Trajectory:
        """Return the steps in the order in which they began."""
        for frame in frames:
            for item in self._items.read([frame]):
                self._add_item(item)
            if frame.kind in ("request", "notification"):
                self._call(frame)
            elif frame.kind in ("response", "error") and frame.answers in self._open:
                self._answer(frame)
            if len(self._steps) + len(self._tools) >= MAX_STEPS:
                self._steps.append(TrajectoryStep(type="other", number=frame.number + 1, t=frame.t, name="truncated"))
                break
        for item in self._items.rest():
            self._add_item(item)
        self._steps += self._open.values()
        self._steps += [_tool_step(tool) for tool in self._tools.values()]
        ordered = sorted(self._steps, key=lambda step: step.number)
        steps = [structs.replace(step, number=number) for number, step in enumerate(ordered, 1)]
        return Trajectory(steps, self._metrics(steps))

    # --- items of the conversation

    def _add_item(self, item: ConversationItem) -> None:
        if item.kind == "message":
            kind: StepKind = "thought" if item.role == "thought" else "message"
            if item.role == "user":
                return
        elif item.kind in _KINDS:
            kind = _KINDS[item.kind]
        else:
            return
        text = item.text
        if item.kind == "plan" and item.entries:
            text = "\n".join(f"[{entry.status}] {entry.content}" for entry in item.entries)
        if item.kind == "prompt" and self._first_prompt is None:
            self._first_prompt = item.t
        if item.kind == "stop":
            self._last = item.t
        name = "exit" if item.kind == "exit" else item.title
        self._steps.append(
            TrajectoryStep(
                type=kind, number=item.number, t=item.t, seconds=item.seconds, text=text, name=name, status=item.status
            )
        )

    # --- requests and updates

    def _call(self, frame: TracedFrame) -> None:
        params = _part(frame, "params")
        if frame.kind == "request" and frame.method in _REQUESTS:
            self._open[frame.number] = self._request(frame, params)
        try:
            observed = observe(frame.version, frame.method, params)
        except InvalidParams:
            return
        for update in observed.updates if observed is not None else ():
            if self._first_update is None and self._first_prompt is not None:
                self._first_update = round(frame.t - self._first_prompt, 6)
            if isinstance(update, ToolCallUpdate | ToolContentChunk):
                self._tool(frame, update)
            elif isinstance(update, UsageUpdate):
                self._context_peak = max(self._context_peak or 0, update.used)
            elif isinstance(update, CompactionUpdate):
                self._compactions.add(update.compaction_id)

    def _request(self, frame: TracedFrame, params: Raw) -> TrajectoryStep:
        fields = _fields(params)
        step = TrajectoryStep(type=_REQUESTS[frame.method], number=frame.number, t=frame.t)
        match frame.method:
            case "terminal/create":
                words = [fields.get("command"), *_texts(fields.get("args"))]
                return structs.replace(step, command=_command_line([word for word in words if isinstance(word, str)]))
            case "elicitation/create":
                return structs.replace(step, text=str(fields.get("message") or ""))
            case "session/request_permission":
                tool: Any = fields.get("toolCall") or _members(fields.get("subject")).get("toolCall")
                options = [_members(option) for option in _list(fields.get("options"))]
                self._options[frame.number] = {str(each.get("optionId")): str(each.get("kind")) for each in options}
                title = fields.get("title") or _members(tool).get("title") or ""
                tool_call_id = str(_members(tool).get("toolCallId", ""))
                return structs.replace(step, name=str(title), tool_call_id=tool_call_id)
            case _:
                return structs.replace(step, paths=[str(fields.get("path") or "")])

    def _tool(self, frame: TracedFrame, update: ToolCallUpdate | ToolContentChunk) -> None:
        key = frame.session, update.tool_call_id
        tool = self._tools.setdefault(key, _Tool(frame.number, frame.t))
        if frame.session not in self._transcripts and len(self._transcripts) >= MAX_SESSIONS:
            return
        transcript = self._transcripts.setdefault(frame.session, Transcript())
        transcript.apply(update)
        tool.call = transcript.tool_call(update.tool_call_id)
        if tool.call is not None and tool.call.is_over and tool.ended is None:
            tool.ended = frame.t

    def _answer(self, frame: TracedFrame) -> None:
        assert frame.answers is not None, "it answers an open request"
        step = self._open.pop(frame.answers)
        seconds = round(frame.t - step.t, 6)
        status = "failed" if frame.kind == "error" else "completed"
        if step.type == "permission":
            outcome = _members(_fields(_part(frame, "result")).get("outcome"))
            kind = self._options.pop(frame.answers, {}).get(str(outcome.get("optionId")), "")
            status = "allowed" if kind.startswith("allow") else "rejected" if kind.startswith("reject") else "cancelled"
        elif step.type == "elicitation" and frame.kind != "error":
            status = str(_fields(_part(frame, "result")).get("action") or status)
        self._steps.append(structs.replace(step, seconds=seconds, status=status))

    # --- metrics

    def _metrics(self, steps: list[TrajectoryStep]) -> TrialMetrics:
        calls = [step for step in steps if step.type == "tool_call"]
        permissions = [step for step in steps if step.type == "permission"]
        kinds: dict[str, int] = {}
        for call in calls:
            kinds[call.kind] = kinds.get(call.kind, 0) + 1
        repeated = sum(_same(one, two) for one, two in pairwise(calls))
        is_timed = self._first_prompt is not None and self._last is not None
        return TrialMetrics(
            seconds=round((self._last or 0.0) - (self._first_prompt or 0.0), 6) if is_timed else None,
            first_update=self._first_update,
            tool_seconds=_union_seconds(calls),
            permission_seconds=_union_seconds(permissions),
            prompts=sum(step.type == "prompt" for step in steps),
            tool_calls=kinds,
            failed_tool_calls=sum(call.status == "failed" for call in calls),
            repeated_tool_calls=repeated,
            permissions_asked=len(permissions),
            permissions_denied=sum(step.status != "allowed" for step in permissions),
            context_peak=self._context_peak,
            compactions=len(self._compactions),
        )


def _tool_step(tool: _Tool) -> TrajectoryStep:
    step = TrajectoryStep(type="tool_call", number=tool.number, t=tool.t)
    call = tool.call
    if call is None:
        return step
    read = read_input(call)
    paths = [*(location.path for location in call.locations), *read.paths, *(change.path for change in call.changes)]
    return structs.replace(
        step,
        seconds=None if tool.ended is None else round(tool.ended - tool.t, 6),
        text=call.output,
        name=call.title,
        kind=call.kind,
        status=call.status,
        tool_call_id=call.tool_call_id,
        paths=list(dict.fromkeys(paths)),
        changes=list(dict.fromkeys(change.path for change in call.changes)),
        created=list(dict.fromkeys(change.path for change in call.changes if change.kind == "add")),
        command=" ; ".join(_command_line(words) for words in read.commands),
        input=UNSET if call.raw_input is UNSET else call.raw_input,
    )


def _command_line(words: list[str]) -> str:
    """Return a command as one line; the script of a shell stays readable."""
    return words[0] if len(words) == 1 else shlex.join(words)


def _same(one: TrajectoryStep, two: TrajectoryStep) -> bool:
    return (one.kind, one.name, one.input) == (two.kind, two.name, two.input)


def _union_seconds(steps: list[TrajectoryStep]) -> float:
    """Return the time in which at least one of the steps was going on."""
    total, end = 0.0, float("-inf")
    for step in sorted(steps, key=lambda step: step.t):
        stop = step.t + (step.seconds or 0.0)
        total += max(0.0, stop - max(step.t, end))
        end = max(end, stop)
    return round(total, 6)


def _part(frame: TracedFrame, name: str) -> Raw:
    assert isinstance(frame.entry.frame, Raw), "it is a message"
    return msgspec.json.decode(frame.entry.frame, type=dict[str, Raw]).get(name, Raw(b"{}"))


def _fields(part: Raw) -> dict[str, Any]:
    try:
        return _members(msgspec.json.decode(part))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def _members(value: Any) -> dict[str, Any]:
    return value if is_object(value) else {}


def _list(value: Any) -> list[Any]:
    return value if is_array(value) else []


def _texts(value: Any) -> list[str]:
    return [each for each in _list(value) if isinstance(each, str)]
