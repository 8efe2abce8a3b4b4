"""Base types of the generated classes and constants.

`Method[P, R]` carries all the typing of the protocol: `await connection.request(SESSION_NEW, params)` is an `R`, and
`@handlers.on(SESSION_NEW)` requires a coroutine function from `P` to `R`. Nothing else is generated per method.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from msgspec import UNSET, Struct, UnsetType

__all__ = [
    "UNSET",
    "JsonObject",
    "JsonValue",
    "Marks",
    "Method",
    "Model",
    "Notification",
    "Other",
    "Secret",
    "Side",
    "UnsetType",
]

JsonValue: TypeAlias = Any
"""Any JSON: a string, a number, true, false, null, a list or a dict of them."""

JsonObject: TypeAlias = dict[str, Any]

Marks: TypeAlias = Mapping[str, str]
"""Lenient decoding of fields, by name on the wire: `E` an invalid value is read as the default, `S` invalid items are
dropped, `N` null is read as empty."""

Side: TypeAlias = Literal["agent", "client", "protocol", "proxy"]
"""The side that handles a message; `protocol` is either end."""


@cache
def wire_name(name: str) -> str:
    """Return the name of a field on the wire: `toolCallId` for `tool_call_id`, and `_meta` for `meta`."""
    if name == "meta":
        return "_meta"
    head, *tail = name.rstrip("_").split("_")
    return head + "".join(map(str.capitalize, tail))


class Model(Struct, frozen=True, kw_only=True, rename=wire_name, omit_defaults=True, gc=False):
    """A JSON object of the schema: snake_case in Python, camelCase on the wire, immutable.

    `gc=False` because a decoded message cannot contain itself; it keeps the garbage collector off the hot path.
    """

    __marks__: ClassVar[Marks] = {}


class Secret(Model, frozen=True, kw_only=True):
    """A model whose `repr` does not show its `value`, so that logs and tracebacks do not contain it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={getattr(self, 'name', None)!r}, value=…)"


P = TypeVar("P")
R = TypeVar("R")


class Method(Generic[P, R]):
    """A request method: its wire name and the types of its parameters and result.

    Attributes:
        name: The name on the wire, e.g. `session/prompt`.
        params: The type of the parameters.
        result: The type of the result.
        side: The side that handles it.
        opens_session: The result contains a session id that the caller did not know before.
        in_order: The response is released only after the notifications of its session that arrived before it have
            been handled.
        ends_session: After a successful response the session id is no longer valid.
        handles_cancellation: Its handler returns a result even if the request was cancelled, so it is called even if
            the cancellation arrived first.
        stable: Whether the method is part of the stable schema of its version.
    """

    __slots__ = (
        "ends_session",
        "handles_cancellation",
        "in_order",
        "name",
        "opens_session",
        "params",
        "result",
        "side",
        "stable",
    )

    def __init__(
        self,
        name: str,
        params: type[P],
        result: type[R],
        *,
        side: Side = "agent",
        opens_session: bool = False,
        in_order: bool = False,
        ends_session: bool = False,
        handles_cancellation: bool = False,
        stable: bool = True,
    ) -> None:
        self.name = name
        self.params = params
        self.result = result
        self.side: Side = side
        self.opens_session = opens_session
        self.in_order = in_order
        self.ends_session = ends_session
        self.handles_cancellation = handles_cancellation
        self.stable = stable

    def __repr__(self) -> str:
        return f"<Method {self.name}>"


class Notification(Generic[P]):
    """A notification method: its wire name and the type of its parameters.

    Attributes:
        name: The name on the wire, e.g. `session/update`.
        params: The type of the parameters.
        side: The side that handles it.
        urgent: It overtakes the notifications waiting in its session (`session/cancel`).
        stable: Whether the notification is part of the stable schema of its version.
    """

    __slots__ = ("name", "params", "side", "stable", "urgent")

    def __init__(
        self, name: str, params: type[P], *, side: Side = "client", urgent: bool = False, stable: bool = True
    ) -> None:
        self.name = name
        self.params = params
        self.side: Side = side
        self.urgent = urgent
        self.stable = stable

    def __repr__(self) -> str:
        return f"<Notification {self.name}>"


class Other(dict[str, Any]):
    """A variant that this version of the schema does not know; it is written back unchanged.

    It is the JSON object itself; `tag` is the value of the union's discriminator.
    """

    __slots__ = ("tag",)

    def __init__(self, tag: str | None, fields: JsonObject) -> None:
        super().__init__(fields)
        self.tag = tag

    def __repr__(self) -> str:
        return f"Other({self.tag!r}, {super().__repr__()})"
