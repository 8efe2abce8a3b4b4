"""Number types of the schema, and checks that msgspec cannot express in an annotation.

Integers are exact up to 64 bits and are never read from `true` or `1.0`. Numbers keep their form: 5 stays 5, not 5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, structs

from duologue.schema.base import Model

UINT64_MAX = 2**64 - 1

Uint16: TypeAlias = Annotated[int, Meta(ge=0, le=2**16 - 1)]
Uint32: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]
# msgspec compares bounds as 64-bit signed integers; `check_uint64` and the lenient reader know the upper one.
Uint64: TypeAlias = Annotated[int, Meta(ge=0, extra={"le": UINT64_MAX})]
Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
PositiveUint16: TypeAlias = Annotated[int, Meta(ge=1, le=2**16 - 1)]
PositiveUint32: TypeAlias = Annotated[int, Meta(ge=1, le=2**32 - 1)]

if TYPE_CHECKING:
    Number: TypeAlias = float
    Fraction: TypeAlias = float
else:
    Number = int | float
    Fraction = Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0, le=1)]


def check_uint64(*values: Any) -> None:
    """Reject integers over 64 bits; None and UNSET pass."""
    for value in values:
        if isinstance(value, int) and value > UINT64_MAX:
            raise ValueError("out of range")


def check_any_scope(session_id: Any, request_id: Any) -> None:
    """Check that an elicitation belongs to a session or to a request."""
    if session_id is None and request_id is UNSET:
        raise ValueError("needs sessionId or requestId")


def check_one_scope(session_id: Any, request_id: Any) -> None:
    """Check that an elicitation belongs to exactly one of a session and a request (v2)."""
    if (session_id is None) is (request_id is None):
        raise ValueError("needs either sessionId or requestId")


def settle_defaults(model: Model) -> None:
    """Replace a field that equals its default by the default object, so that it is left out when encoded.

    msgspec omits defaults by identity.
    """
    cls = type(model)
    for name, default in zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False):
        if isinstance(default, Model) and getattr(model, name) == default:
            structs.force_setattr(model, name, default)
