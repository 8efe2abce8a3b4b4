"""Parts of earlier drafts that published agents still use: models, authentication by environment variables, and what
the documentation of 2025 called `agentCapabilities.mcp`.

Written by hand: the present schema has config options instead of models. The generated results ignore unknown fields;
`models_of` reads the models from a received result, and the classes below can write them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeAlias

from msgspec import Raw, Struct
from msgspec.structs import force_setattr

from duologue.schema import v1
from duologue.schema.base import JsonObject, JsonValue, Marks, Method, Model
from duologue.schema.codec import decode_result
from duologue.schema.constraints import settle_defaults
from duologue.schema.lenient_errors import is_object
from duologue.schema.unions import TaggedUnion

ModelId: TypeAlias = str


class ModelInfo(Model, frozen=True, kw_only=True):
    """A model that the user may choose."""

    __marks__: ClassVar[Marks] = {"description": "E"}

    model_id: ModelId
    name: str
    description: str | None = None
    meta: JsonObject | None = None


class SessionModelState(Model, frozen=True, kw_only=True):
    """The models of a session, and the current one."""

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


# Subclasses, so that a handler of `session/new` may return one; as a consequence `models` is written after `_meta`.


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
    """Read the models from the result of new, load, resume or fork; None if there are none, or no valid ones.

    Raises:
        InvalidParams: The result is not an object at all.
    """
    return decode_result(_ModelsOnly, raw_result).models


# --- authentication by environment variables, as in the draft of early 2026


class AuthMethodEnvVar(Model, frozen=True, kw_only=True, tag_field="type", tag="env_var"):
    """The `AuthMethod` whose `type` is `env_var`; its variables are not decoded, because their form has changed."""

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
        """An authentication method of any draft."""

        tag = "type"
        known = (v1.AuthMethodTerminal, AuthMethodEnvVar)
        absent = v1.AuthMethodAgent
        unknown = v1.AuthMethodAgent


class LegacyAgentCapabilities(v1.AgentCapabilities, frozen=True, kw_only=True):
    """Agent capabilities; `mcp` is used if there is no `mcpCapabilities`."""

    __marks__: ClassVar[Marks] = {**v1.AgentCapabilities.__marks__, "mcp": "E"}

    mcp: v1.McpCapabilities | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mcp is not None and self.mcp_capabilities == v1.McpCapabilities():
            force_setattr(self, "mcp_capabilities", self.mcp)
        force_setattr(self, "mcp", None)


class InitializeResponse(Model, frozen=True, kw_only=True):
    """Result of `initialize` with authentication methods and capabilities of every draft."""

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


# --- waiting for a terminal with a timeout and the output: what peers of the dialect `seed-004` expect

DIALECT_KEY = "seed-004"
"""The key in `_meta` for fields that this dialect has and the schema has not."""

MAX_WAIT_MILLISECONDS = 1e12
"""Thirty years: longer than any wait, and a number that every clock can represent."""


class WaitRequest(Struct, frozen=True):
    """Options of an agent of that dialect for waiting for a command: a timeout, and the output in the result."""

    seconds: float | None = None
    output: bool = False


def wait_request(meta: JsonObject | None) -> WaitRequest:
    """Read the options in the `_meta` of a wait; `timeout` is in milliseconds, and ignored if it is invalid."""
    options: JsonValue = (meta or {}).get(DIALECT_KEY)
    if not is_object(options):
        return WaitRequest()
    timeout = options.get("timeout")
    seconds = None
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout >= 0:
        seconds = min(timeout, MAX_WAIT_MILLISECONDS) / 1000
    return WaitRequest(seconds, options.get("output") is True)


def seed_meta(**values: JsonValue) -> JsonObject:
    """Return a `_meta` with these values under the key of that dialect."""
    return {DIALECT_KEY: values}
