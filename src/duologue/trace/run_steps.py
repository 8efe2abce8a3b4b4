"""The steps of a recorded run in a form in which two runs can be compared.

What differs in each run although it means the same is replaced: ids by their number, times, and the directory of the
session. The chunks of a message are one step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from duologue.schema.lenient_errors import is_array, is_object, path_text
from duologue.trace.frames import TracedFrame
from duologue.trace.identity import IdNumbers, map_strings
from duologue.trace.wire_state import OPENING

MAX_STEPS = 50_000
"""Steps of a run that are compared."""
MAX_BYTES = 64 * 1024 * 1024
"""Length of the messages of a run that are compared."""
MAX_DEPTH = 100
"""Levels of nested values in which paths are ignored and differences found; deeper ones are compared as a whole."""

_CHUNKS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
_PARTS = {"request": "params", "notification": "params", "response": "result", "error": "error"}
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")


class StepKey(NamedTuple):
    """The kind of a step; only steps of one kind are compared in detail."""

    dir: str
    kind: str
    method: str
    update: str = ""
    session: int = 0


class RunStep(Struct, frozen=True):
    """One message of a run, or the chunks of one.

    Attributes:
        key: Its kind.
        number: Number of its first frame.
        frames: Number of frames.
        content: Its `params`, `result` or `error`, in comparable form, as a member of an object.
    """

    key: StepKey
    number: int
    frames: int
    content: dict[str, Any]


class _OpenText:
    def __init__(self, key: StepKey, number: int, content: dict[str, Any]) -> None:
        self.key, self.number, self.frames, self.content = key, number, 1, content
        self.texts = [_text_of(content)]

    def step(self) -> RunStep:
        if len(self.texts) > 1:
            self.content["params"]["update"]["content"]["text"] = "".join(self.texts)
        return RunStep(self.key, self.number, self.frames, self.content)


class RunReader:
    """Reads the steps of a run, up to a limit.

    Args:
        ignored: Patterns of JSON paths whose values are not compared, such as `$.params._meta` or `*.version`.

    Attributes:
        is_cut: The run has more steps than were read.
    """

    def __init__(self, ignored: Sequence[str] = ()) -> None:
        self.is_cut = False
        self._ignored = [re.compile(translate(pattern.replace("[", "[[]"))) for pattern in ignored]
        self._ids = IdNumbers()
        self._sessions: dict[str, int] = {}
        self._directories: dict[str, str] = {}

    def read(self, frames: Iterable[TracedFrame]) -> list[RunStep]:
        """Return the steps of a run in the order in which they began."""
        steps: list[RunStep | _OpenText] = []
        texts: dict[str, _OpenText] = {}
        size = 0
        for frame in frames:
            if frame.kind not in _PARTS and frame.kind != "exit":
                continue
            size += frame.size
            if len(steps) == MAX_STEPS or size > MAX_BYTES:
                self.is_cut = True
                break
            step = self._step(frame)
            if step is None:
                continue
            if step.key.update not in _CHUNKS or not _is_text(step.content):
                texts.pop(frame.session, None)
                steps.append(step)
            elif not self._joined(texts.get(frame.session), step):
                texts[frame.session] = _OpenText(step.key, step.number, step.content)
                steps.append(texts[frame.session])
        return [step.step() if isinstance(step, _OpenText) else step for step in steps]

    def _joined(self, text: _OpenText | None, step: RunStep) -> bool:
        """Append a chunk to the message that it continues; return False if it begins one."""
        if text is None or text.key != step.key or _without_text(text.content) != _without_text(step.content):
            return False
        text.texts.append(_text_of(step.content))
        text.frames += 1
        return True

    def _step(self, frame: TracedFrame) -> RunStep | None:
        key = StepKey(frame.dir, frame.kind, frame.method, frame.update, self._session(frame.session))
        if frame.kind == "exit":
            return RunStep(key, frame.number, 1, {"exit_code": frame.entry.exit_code})
        assert isinstance(frame.entry.frame, Raw), "it is a message"
        part = _PARTS[frame.kind]
        try:
            value = msgspec.json.decode(frame.entry.frame).get(part)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if frame.method in OPENING and frame.kind == "request" and is_object(value):
            self._learn_directory(value.get("cwd"))
        if frame.method == "$/cancel_request":
            value = {}
        content = {part: map_strings(self._ids.number(value), self._comparable)}
        return RunStep(key, frame.number, 1, self._without_ignored(content) if self._ignored else content)

    def _session(self, session: str) -> int:
        return self._sessions.setdefault(session, len(self._sessions) + 1) if session else 0

    def _learn_directory(self, cwd: Any) -> None:
        if isinstance(cwd, str) and len(cwd) > 3 and cwd not in self._directories and len(self._directories) < 100:
            self._directories[cwd] = f"<directory {len(self._directories) + 1}>"

    def _comparable(self, name: str, text: str) -> str:
        if len(text) <= 40 and _TIME.fullmatch(text):
            return "<time>"
        for directory, number in self._directories.items():
            text = text.replace(directory, number)
        return text

    def _without_ignored(self, content: dict[str, Any]) -> dict[str, Any]:
        pruned: dict[str, Any] = self._pruned(content, None, 0)
        return pruned

    def _pruned(self, value: Any, path: tuple[Any, ...] | None, depth: int) -> Any:
        if path is not None and any(pattern.match(path_text(path)) for pattern in self._ignored):
            return "<ignored>"
        if is_array(value) and depth < MAX_DEPTH:
            return [self._pruned(each, (path, index), depth + 1) for index, each in enumerate(value)]
        if is_object(value) and depth < MAX_DEPTH:
            return {name: self._pruned(each, (path, name), depth + 1) for name, each in value.items()}
        return value


def differences(
    one: Any, other: Any, path: tuple[Any, ...] | None = None, depth: int = 0
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the paths at which two values differ, with both values; `...` for one that is missing."""
    if is_object(one) and is_object(other) and depth < MAX_DEPTH:
        for name in [*one, *(name for name in other if name not in one)]:
            yield from differences(one.get(name, ...), other.get(name, ...), (path, name), depth + 1)
    elif is_array(one) and is_array(other) and depth < MAX_DEPTH:
        for index in range(max(len(one), len(other))):
            left, right = (each[index] if index < len(each) else ... for each in (one, other))
            yield from differences(left, right, (path, index), depth + 1)
    elif one != other or type(one) is not type(other):
        yield path_text(path), one, other


def _update_content(content: dict[str, Any]) -> Any:
    value: Any = content
    for name in ("params", "update", "content"):
        value = value.get(name) if is_object(value) else None
    return value


def _is_text(content: dict[str, Any]) -> bool:
    block = _update_content(content)
    return is_object(block) and isinstance(block.get("text"), str)


def _text_of(content: dict[str, Any]) -> str:
    return str(_update_content(content)["text"])


def _without_text(content: dict[str, Any]) -> Any:
    """Return a chunk without its text: the message that it belongs to."""
    params: dict[str, Any] = content["params"]
    update = {**params["update"], "content": {**params["update"]["content"], "text": ""}}
    return {**params, "update": update}
