"""What a scenario's file says: steps to play, and answers to whatever else comes. `docs/reference/scenarios.md`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from duologue.conversation.content import JsonObject

__all__ = ["Script", "Step", "difference", "read_script"]

ACTIONS = ("expect", "send", "reply", "raw", "raw_hex", "end")

GOES_WITH = {
    "within": ("expect",),
    "to": ("reply",),
    "times": ("send", "raw", "raw_hex"),
    "torn": ("end",),
}
"""What may stand in a step beside its action, and beside which. `delay` may stand beside all of them, or alone."""

DEFAULT_ANSWERS: dict[str, JsonObject] = {
    "initialize": {"result": {"protocolVersion": 1, "agentInfo": {"name": "scenario", "version": "1"}}},
    "session/new": {"result": {"sessionId": "scenario"}},
}
"""So that a script may begin with the first prompt."""


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step. It does one thing, after `delay` seconds.

    Attributes:
        expect: Wait for a message that holds all of this; a string stands for its method.
        within: Seconds for it to come; no limit if not given.
        send: Send this message; `jsonrpc` is added.
        reply: Answer the request that was expected last: `{ result = … }` or `{ error = … }`.
        to: The method of the request to answer, if another than the last.
        raw: Send this text as one line, whatever it is.
        raw_hex: The same for bytes that are no text.
        times: How often to send it.
        end: End the process: with this exit code, or by SIGKILL (`kill`); or `close` stdout alone, and stay until the
            client closes our stdin.
        torn: What is written last of all, without a line end.
        delay: Seconds to wait before.
    """

    expect: str | JsonObject | None = None
    within: float | None = None
    send: JsonObject | None = None
    reply: JsonObject | None = None
    to: str | None = None
    raw: str | None = None
    raw_hex: str | None = None
    times: int | None = None
    end: int | Literal["kill", "close"] | None = None
    torn: str | None = None
    delay: float = 0.0

    def __post_init__(self) -> None:
        actions = [name for name in ACTIONS if getattr(self, name) is not None]
        if len(actions) > 1:
            raise ValueError(f"a step does one thing, not {' and '.join(actions)}")
        if not actions and not self.delay:
            raise ValueError(f"a step does something: {', '.join(ACTIONS)} or delay")
        for name, partners in GOES_WITH.items():
            if getattr(self, name) is not None and not set(actions) & set(partners):
                raise ValueError(f"`{name}` goes with {' or '.join(partners)}")
        if self.raw_hex is not None:
            bytes.fromhex(self.raw_hex)
        if self.reply is not None and len({"result", "error"} & set(self.reply)) != 1:
            raise ValueError("a reply has a result or an error")

    @property
    def pattern(self) -> JsonObject | None:
        """What is expected, if this step expects anything."""
        return {"method": self.expect} if isinstance(self.expect, str) else self.expect


class Script(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole file.

    Attributes:
        step: What is played, in order.
        answers: Replies to requests that no step expects, by method.
        ignore: Methods that may come at any time and mean nothing here.
        loop: Start over after the last step.
        within: For every `expect` that does not say itself.
    """

    step: list[Step] = []
    answers: dict[str, JsonObject] = {}
    ignore: list[str] = []
    loop: bool = False
    within: float | None = None

    def __post_init__(self) -> None:
        if any(step.end is not None for step in self.step[:-1]):
            raise ValueError("nothing comes after an end")
        if self.loop and not any(step.expect for step in self.step):
            raise ValueError("a loop expects something in each round")

    def answer_to(self, method: str) -> JsonObject | None:
        """What to reply to a request that no step expects; `None` if that is nothing."""
        return self.answers.get(method, DEFAULT_ANSWERS.get(method))


def read_script(path: Path) -> Script:
    """Read a file: YAML by its ending, which needs the package PyYAML, else TOML.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not a script; the message says where.
    """
    text = path.read_text("utf-8")
    content = _parse_yaml(text) if path.suffix in (".yaml", ".yml") else tomllib.loads(text)
    try:
        return msgspec.convert(content, Script)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _parse_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ValueError("YAML needs the package PyYAML; or write the scenario as TOML") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def difference(pattern: Any, value: Any, place: str = "it") -> str | None:
    """Where a value differs from a pattern, for a person; `None` if it does not.

    Every member that the pattern names must be there and fit; others may be there, too. Lists fit member by member.
    `"*"` fits everything.
    """
    match pattern, value:
        case "*", _:
            return None
        case dict(), dict():
            return _difference_of_objects(pattern, value, place)  # pyright: ignore[reportUnknownArgumentType]
        case list(), list():
            return _difference_of_lists(pattern, value, place)  # pyright: ignore[reportUnknownArgumentType]
        case _:
            is_same = pattern == value and isinstance(pattern, bool) == isinstance(value, bool)
            return None if is_same else f"{place} is {_shown(value)}, not {_shown(pattern)}"


def _difference_of_objects(pattern: JsonObject, value: JsonObject, place: str) -> str | None:
    for name, wanted in pattern.items():
        if name not in value:
            return f"{place} has no {name}"
        found = difference(wanted, value[name], f"{place}.{name}")
        if found is not None:
            return found
    return None


def _difference_of_lists(pattern: list[Any], value: list[Any], place: str) -> str | None:
    if len(pattern) != len(value):
        return f"{place} has {len(value)} members, not {len(pattern)}"
    pairs = enumerate(zip(pattern, value, strict=True))
    return next((found for i, (one, other) in pairs if (found := difference(one, other, f"{place}[{i}]"))), None)


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
