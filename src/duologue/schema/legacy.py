"""What earlier drafts had and agents in the field still speak: models to choose from, logins by the environment, and
what the documentation of 2025 called `agentCapabilities.mcp`.

Written by hand and kept apart: today's schema has config options instead of models. The generated results ignore what
they do not know; `models_of` finds the models in the bytes as received, and the classes below can write them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from msgspec import Raw
from msgspec.structs import force_setattr

from duologue.schema import v1
from duologue.schema.base import JsonObject, JsonValue, Marks, Method, Model
from duologue.schema.codec import decode_result
from duologue.schema.constraints import settle_defaults
from duologue.schema.lenient_errors import is_object
from duologue.schema.unions import TaggedUnion

__all__ = [
    "INITIALIZE",
    "SESSION_SET_MODEL",
    "AuthMethod",
    "AuthMethodEnvVar",
    "ForkSessionResponse",
    "InitializeResponse",
    "LegacyAgentCapabilities",
    "LoadSessionResponse",
    "ModelId",
    "ModelInfo",
    "NewSessionResponse",
    "ResumeSessionResponse",
    "SessionModelState",
    "SetSessionModelRequest",
    "SetSessionModelResponse",
    "WaitRequest",
    "models_of",
    "seed_meta",
    "wait_request",
]

ModelId: TypeAlias = str


class ModelInfo(Model, frozen=True, kw_only=True):
    """A model the user may choose."""

    __marks__: ClassVar[Marks] = {"description": "E"}

    model_id: ModelId
    name: str
    description: str | None = None
    meta: JsonObject | None = None


class SessionModelState(Model, frozen=True, kw_only=True):
    """The models of a session, and the one in use."""

    __marks__: ClassVar[Marks] = {"availableModels": "ES"}

    current_model_id: ModelId
    available_models: list[ModelInfo]
    meta: JsonObject | None = None


class SetSessionModelRequest(Model, frozen=True, kw_only=True):
    """Parameters of `session/set_model`."""

    session_id: v1.SessionId
    model_id: ModelId
    meta: JsonObject | None = None


class SetSessionModelResponse(Model, frozen=True, kw_only=True):
    """Result of `session/set_model`."""

    meta: JsonObject | None = None


SESSION_SET_MODEL: Method[SetSessionModelRequest, SetSessionModelResponse] = Method(
    "session/set_model", SetSessionModelRequest, SetSessionModelResponse, side="agent", stable=False
)


# Subclasses, so that a handler of `session/new` may return one; the price is that `models` follows `_meta`.


class NewSessionResponse(v1.NewSessionResponse, frozen=True, kw_only=True):
    """Result of `session/new` with the models of the session."""

    models: SessionModelState | None = None


class LoadSessionResponse(v1.LoadSessionResponse, frozen=True, kw_only=True):
    """Result of `session/load` with the models of the session."""

    models: SessionModelState | None = None


class ResumeSessionResponse(v1.ResumeSessionResponse, frozen=True, kw_only=True):
    """Result of `session/resume` with the models of the session."""

    models: SessionModelState | None = None


class ForkSessionResponse(v1.ForkSessionResponse, frozen=True, kw_only=True):
    """Result of `session/fork` with the models of the session."""

    models: SessionModelState | None = None


class _ModelsOnly(Model, frozen=True, kw_only=True):
    __marks__: ClassVar[Marks] = {"models": "E"}

    models: SessionModelState | None = None


def models_of(raw_result: bytes | Raw) -> SessionModelState | None:
    """The models in the result of new, load, resume or fork as it came; None where there are none, or no good ones.

    Raises:
        InvalidParams: The result is not an object at all.
    """
    return decode_result(_ModelsOnly, raw_result).models


# --- logins by the environment, as the draft of early 2026 had them


class AuthMethodEnvVar(Model, frozen=True, kw_only=True, tag_field="type", tag="env_var"):
    """The `AuthMethod` whose `type` is `env_var`; the form of its variables has changed, so they are as they came."""

    __marks__: ClassVar[Marks] = {"description": "E"}

    id: v1.AuthMethodId
    name: str
    description: str | None = None
    vars: JsonValue = None
    var_name: JsonValue = None
    var_names: JsonValue = None
    link: JsonValue = None
    meta: JsonObject | None = None


if TYPE_CHECKING:
    AuthMethod: TypeAlias = v1.AuthMethodTerminal | AuthMethodEnvVar | v1.AuthMethodAgent
else:

    class AuthMethod(TaggedUnion):
        """A way to log in, of any draft."""

        tag = "type"
        known = (v1.AuthMethodTerminal, AuthMethodEnvVar)
        absent = v1.AuthMethodAgent
        unknown = v1.AuthMethodAgent


class LegacyAgentCapabilities(v1.AgentCapabilities, frozen=True, kw_only=True):
    """What an agent can do; `mcp` counts where there is no `mcpCapabilities`."""

    __marks__: ClassVar[Marks] = {**v1.AgentCapabilities.__marks__, "mcp": "E"}

    mcp: v1.McpCapabilities | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mcp is not None and self.mcp_capabilities == v1.McpCapabilities():
            force_setattr(self, "mcp_capabilities", self.mcp)
        force_setattr(self, "mcp", None)


class InitializeResponse(Model, frozen=True, kw_only=True):
    """Result of `initialize` with logins and capabilities of every draft."""

    __marks__: ClassVar[Marks] = v1.InitializeResponse.__marks__

    protocol_version: v1.ProtocolVersion
    agent_capabilities: LegacyAgentCapabilities = LegacyAgentCapabilities()
    auth_methods: list[AuthMethod] = []  # noqa: RUF012 - a struct copies it
    agent_info: v1.Implementation | None = None
    meta: JsonObject | None = None

    def __post_init__(self) -> None:
        settle_defaults(self)


INITIALIZE: Method[v1.InitializeRequest, InitializeResponse] = Method(
    v1.INITIALIZE.name, v1.InitializeRequest, InitializeResponse, side=v1.INITIALIZE.side
)


# --- waits that end with their time, and with the output: what peers of the dialect `seed-004` expect

KEPT_UNDER = "seed-004"
"""The key in `_meta` that keeps what that dialect has and this schema has not."""

MAX_WAIT_MILLISECONDS = 1e12
"""Thirty years: longer than any wait, and a number that every clock can hold."""


class WaitRequest(NamedTuple):
    """What an agent expects of a wait beyond the end of the command: when the wait ends, and the output with it."""

    seconds: float | None = None
    output: bool = False


def wait_request(meta: JsonObject | None) -> WaitRequest:
    """The wish in the `_meta` of a wait; `timeout` is in milliseconds, and what is no time is none."""
    wish: JsonValue = (meta or {}).get(KEPT_UNDER)
    if not is_object(wish):
        return WaitRequest()
    timeout = wish.get("timeout")
    seconds = None
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout >= 0:
        seconds = min(timeout, MAX_WAIT_MILLISECONDS) / 1000
    return WaitRequest(seconds, wish.get("output") is True)


def seed_meta(**values: JsonValue) -> JsonObject:
    """The `_meta` that keeps these values."""
    return {KEPT_UNDER: values}
