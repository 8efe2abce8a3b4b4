"""The envelope as it is decoded: `params`, `result` and `error` stay raw bytes.

The envelope is the message; it is never copied into another object. A request has an id and a method, a notification
a method only, a response an id only.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

__all__ = ["Cancel", "ErrorObject", "Id", "JsonRpcMessage", "Response"]

Id: TypeAlias = int | str
"""A request id. `"1"` is not `1`: an answer goes back with the id it came with."""


class JsonRpcMessage(Struct, gc=False):
    """Any JSON-RPC message. Raw fields are views into the frame they came in."""

    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class ErrorObject(Struct):
    """The `error` of a response, read as forgivingly as can be done without guessing its code."""

    code: int
    message: str = ""
    data: Any = None


class Response(Struct):
    """The peer answered a request of ours: a raw result, or the error to raise."""

    call: Any
    result: Raw | UnsetType = UNSET
    error: Exception | None = None


class Cancel(Struct):
    """The peer no longer wants the answer to a request of its own that is still running."""

    id: Id
