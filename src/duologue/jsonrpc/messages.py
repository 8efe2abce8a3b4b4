"""Decoded JSON-RPC messages; `params`, `result` and `error` stay raw bytes.

A message is never copied into another object. A request has an id and a method, a notification a method only, a
response an id only.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

Id: TypeAlias = int | str
"""A request id. `"1"` is not `1`: a response repeats the id of its request unchanged."""


class JsonRpcMessage(Struct, gc=False):
    """Any JSON-RPC message. Raw fields are views into the received frame."""

    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class ErrorObject(Struct):
    """The `error` of a response; everything but its code may be missing."""

    code: int
    message: str = ""
    data: Any = None


class Response(Struct, gc=False):
    """The response to a request of ours: a raw result, or the error to raise."""

    call: Any
    result: Raw | UnsetType = UNSET
    error: Exception | None = None


class Cancel(Struct):
    """The peer cancels a request of its own that is still running."""

    id: Id
