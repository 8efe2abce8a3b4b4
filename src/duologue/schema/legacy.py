"""Model selection as the unstable schema of October 2025 had it, which agents in the field still speak.

Written by hand and kept apart: today's schema has config options instead. The generated results ignore the `models`
they do not know; `models_of` finds them in the bytes as received, and the classes below can write them.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from msgspec import Raw

from duologue.schema import v1
from duologue.schema.base import JsonObject, Marks, Method, Model
from duologue.schema.codec import decode_result

__all__ = [
    "SESSION_SET_MODEL",
    "ForkSessionResponse",
    "LoadSessionResponse",
    "ModelId",
    "ModelInfo",
    "NewSessionResponse",
    "ResumeSessionResponse",
    "SessionModelState",
    "SetSessionModelRequest",
    "SetSessionModelResponse",
    "models_of",
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
