"""Steering: sending text into a running turn, which is an extension that agents spell in several ways.

`_session/steering` is that of the adapters for Claude Code and Codex, and the one that duologue's agents offer. The
others are recognised where an agent advertises them. Each spelling is a row of `SPELLINGS`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

from msgspec import Struct

from duologue.conversation.content import JsonObject
from duologue.schema.base import JsonValue, Model

SteerOutcome: TypeAlias = Literal["injected", "started_new_turn", "prompt_required", "not_supported"]
"""The outcome of a text: part of the running turn; part of a turn that the agent started; not taken; not sent."""

STEERING = "_session/steering"
NO_RUNNING_TURN = "noRunningTurn"
QUEUED = "queued_followup"
PROMPT_REQUIRED_META: JsonObject = {"steering": {"idleBehavior": "promptRequired"}}
"""`_meta` of a request: an agent without a running turn must not start one, because its end would have no owner."""
STEERING_META: JsonObject = {"steering": {"supported": True}}
"""`_meta` of the answer to `initialize`."""
STEERED_META: JsonObject = {"steering": {"injected": True}}
"""`_meta` of a user message that was injected into a running turn, in transcripts and stored sessions."""


class SteerAnswer(Struct, frozen=True):
    """The answer to a steering request; `reason` says in a word why the text was not taken."""

    outcome: SteerOutcome
    reason: str | None = None


class SteerRequest(Model, frozen=True, kw_only=True):
    """Parameters of a steering request in any spelling; the text is its `prompt`, or its `content`."""

    session_id: str
    mode: str | None = None
    prompt: list[JsonValue] | None = None
    content: list[JsonValue] | None = None
    expected_run_id: str | None = None
    meta: JsonObject | None = None


class SteerResponse(Model, frozen=True, kw_only=True):
    """Result of `_session/steering`."""

    outcome: str
    reason: str | None = None
    meta: JsonObject | None = None


class Spelling(Struct, frozen=True, kw_only=True):
    """How one family of agents spells steering.

    Attributes:
        method: Name of the request.
        advertised: Keys that lead to the advertisement in the answer to `initialize`; `capabilities` stands for the
            capabilities, whatever their name in a version. Its value is `true`, or names the method or the mode.
        mode: Value of `mode` in the request, which then has `content` instead of `prompt`.
        run_id: Keys that lead to the id of the running turn in `_meta` of a `session_info_update`; the request
            repeats it. Empty: the request has none.
        refusals: Error codes that mean that no turn runs which could take the text.
    """

    method: str
    advertised: tuple[str, ...]
    mode: str | None = None
    run_id: tuple[str, ...] = ()
    refusals: tuple[int, ...] = ()


STANDARD = Spelling(method=STEERING, advertised=("_meta", "steering", "supported"))
SPELLINGS = (
    STANDARD,
    # The proposal for version 2 (RFD 1261), as its draft in the Rust schema has it.
    Spelling(
        method="session/inject",
        advertised=("capabilities", "session", "inject", "modes"),
        mode="steer",
        refusals=(-32010,),
    ),
    # goose: it refuses a run that has ended with "invalid params", and everything else that is wrong too.
    Spelling(
        method="_goose/unstable/session/steer",
        advertised=("capabilities", "_meta", "goose", "sessionSteer", "method"),
        run_id=("goose", "activeRunId"),
        refusals=(-32602,),
    ),
    # Reasonix: a text that comes too late is stored and becomes the next turn.
    Spelling(
        method="_reasonix.io/session/steer",
        advertised=("capabilities", "_meta", "reasonix.io", "sessionSteer", "method"),
        refusals=(-32600,),
    ),
)


def spelling_of(answer: JsonObject) -> Spelling | None:
    """Return the first spelling that an agent advertises in its answer to `initialize`; `None` if there is none."""
    capabilities = answer.get("capabilities", answer.get("agentCapabilities"))
    for spelling in SPELLINGS:
        found = value_at({**answer, "capabilities": capabilities}, spelling.advertised)
        offered = cast("list[object]", found) if isinstance(found, list) else [found]
        if True in offered or spelling.method in offered or (spelling.mode is not None and spelling.mode in offered):
            return spelling
    return None


def request_for(
    spelling: Spelling, session_id: str, blocks: list[JsonValue], run_id: str | None, meta: JsonObject | None
) -> SteerRequest:
    """Write a request in this spelling."""
    if spelling.mode is not None:
        return SteerRequest(session_id=session_id, mode=spelling.mode, content=blocks)
    return SteerRequest(
        session_id=session_id, prompt=blocks, expected_run_id=run_id, meta=meta if spelling is STANDARD else None
    )


def value_at(meta: object, keys: tuple[str, ...]) -> object:
    """Return the value that these keys lead to; `None` if there is none."""
    for key in keys:
        meta = cast("JsonObject", meta).get(key) if isinstance(meta, dict) else None
    return meta


# --- the spelling of Qwen Code: the agent asks between its steps, and the client hands out what it has

PULL = "craft/drainMidTurnQueue"
MAX_PULLED = 10
"""Texts in one answer; the agent drops further ones."""


class PullRequest(Model, frozen=True, kw_only=True):
    """Parameters of the agent's question for texts."""

    session_id: str
    meta: JsonObject | None = None


class PulledText(Model, frozen=True, kw_only=True):
    """One text, as content blocks."""

    content: list[JsonValue]


class PullResponse(Model, frozen=True, kw_only=True):
    """The texts that the client hands out, and whether a prompt waits for the end of the turn."""

    items: list[PulledText]
    has_queued_prompt: bool
    meta: JsonObject | None = None


_OUTCOMES: dict[str, SteerOutcome] = {
    "injected": "injected",
    "startedNewTurn": "started_new_turn",
    "promptRequired": "prompt_required",
    "failed": "prompt_required",
}


def is_prompt_required(meta: JsonObject | None) -> bool:
    """Return True if the client asks for `promptRequired` instead of a new turn."""
    return value_at(meta, ("steering", "idleBehavior")) == "promptRequired"


def answer_to_wire(answer: SteerAnswer, meta: JsonObject | None) -> SteerResponse:
    """Write an answer for a client that sent this `_meta`; older clients know `failed` only."""
    outcome = next(wire for wire, known in _OUTCOMES.items() if known == answer.outcome)
    if outcome == "promptRequired" and not is_prompt_required(meta):
        outcome = "failed"
    return SteerResponse(outcome=outcome, reason=answer.reason)


def answer_from_wire(spelling: Spelling, answer: JsonObject) -> SteerAnswer:
    """Read an answer; an outcome that is not known means that the text was not taken."""
    if spelling is not STANDARD:  # the others answer with an error if they do not take the text
        disposition = answer.get("disposition")
        return SteerAnswer("started_new_turn", disposition) if disposition == QUEUED else SteerAnswer("injected")
    outcome, reason = str(answer.get("outcome")), answer.get("reason")
    known = _OUTCOMES.get(outcome, "prompt_required")
    why = None if known == "injected" else reason if isinstance(reason, str) else outcome
    return SteerAnswer(known, why)
