"""The script of a scenario: steps to play, and answers to other requests. See `docs/reference/scenarios.md`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from duologue.conversation.content import JsonObject

ACTIONS = ("expect", "send", "reply", "raw", "raw_hex", "end")

GOES_WITH = {
    "within": ("expect",),
    "to": ("reply",),
    "times": ("send", "raw", "raw_hex"),
    "torn": ("end",),
}
"""Option of a step -> the actions it belongs to. `delay` is allowed with every action, or alone."""

DEFAULT_ANSWERS: dict[str, JsonObject] = {
    "initialize": {"result": {"protocolVersion": 1, "agentInfo": {"name": "scenario", "version": "1"}}},
    "session/new": {"result": {"sessionId": "scenario"}},
}
"""Answers to requests before the first prompt, so that a script may begin with it."""


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a script: one action, after `delay` seconds.

    Attributes:
        expect: Wait for a message that contains all of this; a string stands for its method.
        within: Seconds to wait for the message; no limit if not given.
        send: Send this message; `jsonrpc` is added.
        reply: Answer the request that was expected last: `{ result = … }` or `{ error = … }`.
        to: Method of the request to answer, if it is not the last one.
        raw: Send this text as one line, valid or not.
        raw_hex: Send these bytes as one line, for data that is not text.
        times: How often to send it.
        end: End the process: with this exit code, by SIGKILL (`kill`), or `close` only stdout and wait until the client
            closes stdin.
        torn: Text to write at the very end, without a line end.
        delay: Seconds to wait before the action.
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
            raise ValueError(f"a step must have one action, not {' and '.join(actions)}")
        if not actions and not self.delay:
            raise ValueError(f"a step needs an action: {', '.join(ACTIONS)} or delay")
        for name, partners in GOES_WITH.items():
            if getattr(self, name) is not None and not set(actions) & set(partners):
                raise ValueError(f"`{name}` is only allowed with {' or '.join(partners)}")
        if self.raw_hex is not None:
            bytes.fromhex(self.raw_hex)
        if self.reply is not None and len({"result", "error"} & set(self.reply)) != 1:
            raise ValueError("a reply needs either a result or an error")

    @property
    def pattern(self) -> JsonObject | None:
        """The expected message, if this step expects one."""
        return {"method": self.expect} if isinstance(self.expect, str) else self.expect


class Script(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole script.

    Attributes:
        step: The steps, in order.
        answers: Replies to requests that no step expects, by method.
        ignore: Methods that are allowed at any time and ignored.
        loop: Start again after the last step.
        within: Time limit in seconds of every `expect` without its own.
    """

    step: list[Step] = []
    answers: dict[str, JsonObject] = {}
    ignore: list[str] = []
    loop: bool = False
    within: float | None = None

    def __post_init__(self) -> None:
        if any(step.end is not None for step in self.step[:-1]):
            raise ValueError("`end` must be the last step")
        if self.loop and not any(step.expect for step in self.step):
            raise ValueError("a loop needs at least one `expect`")

    def answer_to(self, method: str) -> JsonObject | None:
        """Return the reply to a request that no step expects; `None` if there is none."""
        return self.answers.get(method, DEFAULT_ANSWERS.get(method))


def read_script(path: Path) -> Script:
    """Read a script from a file: YAML if its suffix says so, which needs the package PyYAML, else TOML.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a script; the message says where it is wrong.
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
        raise ValueError("YAML needs the package PyYAML; install it, or write the scenario as TOML") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def difference(pattern: Any, value: Any, path: str = "it") -> str | None:
    """Describe where a value differs from a pattern; `None` if it matches.

    Every member of the pattern must be present and match; the value may have other members. Lists match item by item.
    `"*"` matches everything.
    """
    match pattern, value:
        case "*", _:
            return None
        case dict(), dict():
            return _difference_of_objects(pattern, value, path)  # pyright: ignore[reportUnknownArgumentType]
        case list(), list():
            return _difference_of_lists(pattern, value, path)  # pyright: ignore[reportUnknownArgumentType]
        case _:
            is_same = pattern == value and isinstance(pattern, bool) == isinstance(value, bool)
            return None if is_same else f"{path} is {_shown(value)}, not {_shown(pattern)}"


def _difference_of_objects(pattern: JsonObject, value: JsonObject, path: str) -> str | None:
    for name, wanted in pattern.items():
        if name not in value:
            return f"{path} has no {name}"
        found = difference(wanted, value[name], f"{path}.{name}")
        if found is not None:
            return found
    return None


def _difference_of_lists(pattern: list[Any], value: list[Any], path: str) -> str | None:
    if len(pattern) != len(value):
        return f"{path} has {len(value)} members, not {len(pattern)}"
    pairs = enumerate(zip(pattern, value, strict=True))
    return next((found for i, (one, other) in pairs if (found := difference(one, other, f"{path}[{i}]"))), None)


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
