"""Profiles of published clients and agents: what they are known to send, read from a file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from duologue.conversation.content import JsonObject
from duologue.suggestion import suggestion
from duologue.testing.script import Script

DIRECTORY = Path(__file__).parent

P = TypeVar("P", "ClientProfile", "AgentProfile")


class ClientProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Habits of a client.

    Attributes:
        about: What is special about it, in a sentence.
        source: Where each habit was seen.
        script: What it sends and expects; `$prompt` is the text of its prompt.
    """

    about: str
    source: list[str]
    script: Script


class AgentAct(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One act of an agent: one message, after `delay` seconds.

    Attributes:
        update: Update to send in `session/update`.
        request: Request to send, with `method` and `params`; the agent waits for the response.
        notify: Notification to send, with `method` and `params`.
        raw: Text to send as one line, valid or not.
        delay: Seconds before it.
    """

    update: JsonObject | None = None
    request: JsonObject | None = None
    notify: JsonObject | None = None
    raw: str | None = None
    delay: float = 0.0


class AgentProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Habits of an agent. Texts may use `$session`, `$cwd` and `$prompt`, the text of the prompt.

    Attributes:
        about: What is special about it, in a sentence.
        source: Where each habit was seen.
        initialize: Result of `initialize`.
        session: Members of the result of `session/new` in addition to `sessionId`.
        start: Acts before the first message is read.
        before_session: Acts before the response to `session/new`.
        after_session: Acts after it.
        turn: Acts of a turn.
        result: Members of the result of `session/prompt`; `stopReason` is `end_turn` if it is not among them.
        after_turn: Acts after it.
        replay: Updates of `session/load`.
        replays_late: They follow the response instead of preceding it.
        results: Results of other methods.
        errors: Errors in response to methods.
        cancel: End of a cancelled turn: the result, an error, or none but the usual one.
        second_prompt: A prompt during a turn waits, is refused, or cancels the turn.
        fails_on_error: An error in response to a request of a turn ends the turn with an error.
        ids: Ids of requests: numbers from 0, or texts.
    """

    about: str
    source: list[str]
    initialize: JsonObject
    session: JsonObject = {}
    start: list[AgentAct] = []
    before_session: list[AgentAct] = []
    after_session: list[AgentAct] = []
    turn: list[AgentAct] = []
    result: JsonObject = {}
    after_turn: list[AgentAct] = []
    replay: list[JsonObject] = []
    replays_late: bool = False
    results: dict[str, JsonObject] = {}
    errors: dict[str, JsonObject] = {}
    cancel: Literal["cancelled", "error", "ignored"] = "cancelled"
    second_prompt: Literal["queue", "error", "cancel"] = "queue"
    fails_on_error: bool = False
    ids: Literal["number", "text"] = "number"


def names_of(side: Literal["agents", "clients"]) -> list[str]:
    """Return the names of the profiles of one side."""
    return sorted(path.stem for path in (DIRECTORY / side).glob("*.toml"))


def read_profile(profile: str | Path, kind: type[P]) -> P:
    """Read a profile by its name, or from a file of one's own.

    Raises:
        ValueError: Nothing has that name, or the file is not a profile; the message says where it is wrong.
        OSError: The file cannot be read.
    """
    side: Literal["agents", "clients"] = "clients" if kind.__name__ == ClientProfile.__name__ else "agents"
    path = Path(profile)
    if isinstance(profile, str) and path.suffix == "":
        names = names_of(side)
        if profile not in names:
            raise ValueError(
                f"no profile {profile!r} of {side}{suggestion(profile, names)}; there are: {', '.join(names)}"
            )
        path = DIRECTORY / side / f"{profile}.toml"
    content: Any = tomllib.loads(path.read_text("utf-8"))
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path}: {error}") from None
