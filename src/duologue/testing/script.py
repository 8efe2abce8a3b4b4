"""The script of a scenario: steps to play, and answers to other requests. See `docs/reference/scenarios.md`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from duologue.conversation.content import JsonObject
from duologue.testing.message_pattern import as_pattern
from duologue.testing.script_variables import check_name

ACTIONS = ("expect", "expect_all", "send", "reply", "raw", "raw_hex", "end")

GOES_WITH = {
    "within": ("expect", "expect_all"),
    "without": ("expect", "expect_all"),
    "capture": ("expect",),
    "to": ("reply",),
    "times": ("send", "raw", "raw_hex"),
    "torn": ("end",),
}
"""Option of a step -> the actions it belongs to. `delay` is allowed with every action, or alone."""


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a script: one action, after `delay` seconds.

    Attributes:
        expect: Wait for a message that contains all of this; a string stands for its method.
        expect_all: Wait for several messages, in any order.
        within: Seconds to wait for the message. Default: that of the script.
        without: Messages that must not come before the expected one, even if the script ignores or answers them.
        capture: Names for parts of the expected message: `{ session = "result.sessionId" }` lets later steps use
            `"$session"`.
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
    expect_all: list[str | JsonObject] | None = None
    within: float | None = None
    without: list[str | JsonObject] | None = None
    capture: dict[str, str] | None = None
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
        if self.expect_all == []:
            raise ValueError("`expect_all` needs at least one message")
        for name in self.capture or ():
            check_name(name)

    @property
    def patterns(self) -> list[JsonObject]:
        """The expected messages; empty if this step expects none."""
        if self.expect is not None:
            return [as_pattern(self.expect)]
        return [as_pattern(each) for each in self.expect_all or ()]


class Script(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole script.

    Attributes:
        step: The steps, in order.
        answers: Replies to requests that no step expects, by method.
        ignore: Methods that are allowed at any time and ignored. Default: none; for a client, `session/update`.
        loop: Start again after the last step. Only for an agent.
        within: Time limit in seconds of every `expect` without its own. Default: none; for a client, 60.
        setup: A client initializes the connection and opens a session first, `$session`, unless a step sends
            `initialize`.
        variables: Values for `"$name"` in the steps; a test may replace them.
    """

    step: list[Step] = []
    answers: dict[str, JsonObject] = {}
    ignore: list[str] | None = None
    loop: bool = False
    within: float | None = None
    setup: bool = True
    variables: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if any(step.end is not None for step in self.step[:-1]):
            raise ValueError("`end` must be the last step")
        if self.loop and not any(step.patterns for step in self.step):
            raise ValueError("a loop needs at least one `expect`")
        for name in self.variables:
            check_name(name)

    @property
    def has_variables(self) -> bool:
        """True if the script gives names to values."""
        return bool(self.variables) or any(step.capture for step in self.step)

    def sends(self, method: str) -> bool:
        """Return True if a step sends a message of this method."""
        return any(step.send is not None and step.send.get("method") == method for step in self.step)


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
