"""Bytes to models and back.

Reading is strict first, at full speed; only what fails is read again by `lenient`, which forgives what the schema
marks and refuses the rest by path. Whatever the bytes are, nothing but `InvalidParams` leaves this module.
Writing has one form: the tag first, `_meta` last, defaults and Nones left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any, Never, TypeAlias, TypeVar, cast

import msgspec
import msgspec.inspect
from msgspec import DecodeError, Raw, UnsetType, ValidationError

from duologue.errors import EncodeError, InvalidParams
from duologue.sanitize import replace_lone_surrogates
from duologue.schema.base import JsonValue, Model
from duologue.schema.lenient import UnknownType, reader_for
from duologue.schema.lenient_errors import Defaulted, Rejected, is_array, is_object
from duologue.schema.unions import WireUnion

__all__ = [
    "Defaulted",
    "Report",
    "check_readable",
    "decode",
    "decode_params",
    "decode_result",
    "decoder_for",
    "encode",
    "strict_decoder_for",
]

T = TypeVar("T")
Report: TypeAlias = Callable[[Defaulted], None]
"""Called for each thing that was wrong and was forgiven."""

Source: TypeAlias = bytes | Raw

_NULL_AT_MOST = 16  # "null" and the blanks a friendly peer may put around it

# What msgspec may raise on hostile input besides its own errors (UnicodeDecodeError is a ValueError).
_DECODE_FAILURES = (DecodeError, RecursionError, OverflowError, ValueError)


def decoder_for(type_: type[T]) -> Callable[[Source], T]:
    """A function from bytes to `type_`, built once.

    The function raises `InvalidParams` naming the place: `$.prompt[0].text: expected str, got int`.

    Raises:
        TypeError: JSON cannot be read as `type_`, or as a type inside it.
    """
    return cast("Callable[[Source], T]", _decoder(cast("Any", type_)))


def check_readable(type_: Any) -> None:
    """Refuse a type that no JSON could be read as, before a message arrives that would have to be.

    Raises:
        TypeError: JSON cannot be read as `type_`, or as a type inside it.
    """
    if type_ is not Raw and not _is_generated(type_):
        _decoder(type_)


def _is_generated(type_: object) -> bool:
    return isinstance(type_, type) and issubclass(type_, Model) and type_.__module__.startswith("duologue.schema.")


@cache
def _decoder(type_: Any) -> Callable[[Source], Any]:
    if not _is_generated(type_) and (foreign := _foreign_type(type_)) is not None:
        raise TypeError(
            f"{type_!r} cannot be read from JSON: {foreign!r} says nothing about the value. "
            f"Use `Any` for any JSON, `dict[str, Any]` for any object, or a `Model` with typed fields"
        )
    strict = _strict(type_)

    def decode_one(raw: Source) -> Any:
        try:
            return strict(raw)
        except _DECODE_FAILURES:
            return _decode_leniently(type_, raw, None)

    return decode_one


def strict_decoder_for(type_: Any) -> Callable[[Source], Any]:
    """A function from bytes to `type_`, built once, that forgives nothing and does not say where it failed."""
    return _strict(type_)


def decode(type_: type[T], raw: Source, report: Report | None = None) -> T:
    """Read `raw` as `type_`; `report` hears of everything that was forgiven.

    Raises:
        InvalidParams: It can not be read, even with the forgiveness the schema allows.
    """
    decode_one = decoder_for(type_)
    if report is None:
        return decode_one(raw)
    try:
        return cast("T", _strict(cast("Any", type_))(raw))
    except _DECODE_FAILURES:
        return cast("T", _decode_leniently(type_, raw, report))


def decode_params(type_: type[T], raw: Source | UnsetType, report: Report | None = None) -> T:
    """Like `decode`; absent and null parameters read as `{}`, so that methods without fields accept them."""
    if isinstance(raw, UnsetType) or _is_null(raw):
        raw = b"{}"
    return decode(type_, raw, report)


def decode_result(type_: type[T], raw: Source, report: Report | None = None) -> T:
    """Like `decode`; null reads as `{}` where an object is due, because agents in the field answer so."""
    if _is_null(raw) and cast("object", type_) is not Any:
        raw = b"{}"
    return decode(type_, raw, report)


_encoder = msgspec.json.Encoder()


def encode(model: JsonValue) -> bytes:
    """One JSON text in canonical form.

    Raises:
        EncodeError: There is something in it that JSON can not say.
    """
    try:
        return _encoder.encode(model)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError) as error:
        raise EncodeError(f"{type(model).__name__}: {error}") from error


@cache
def _strict(type_: Any) -> Callable[[Source], Any]:
    return msgspec.json.Decoder(type_, dec_hook=_read_choice).decode


def _foreign_type(type_: Any) -> type[Any] | None:
    """The first type within `type_` that only a hook could read, and no hook here does."""
    waiting: list[Any] = [msgspec.inspect.type_info(type_)]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if type(node) is tuple:
            waiting += node
        elif isinstance(node, msgspec.inspect.Type | msgspec.inspect.Field) and id(node) not in seen:
            seen.add(id(node))  # types may contain themselves
            found: type[Any] = getattr(node, "cls", object)
            if isinstance(node, msgspec.inspect.CustomType) and not issubclass(found, WireUnion):
                return found
            if not _is_generated(found):
                waiting += [getattr(node, name) for name in node.__struct_fields__]
    return None


def _read_choice(type_: Any, value: JsonValue) -> Any:
    """msgspec's way to ask for a union it can not tell apart.

    What needs forgiveness is refused here, so that the lenient pass sees it in its place and reports it.
    """
    mended: list[Defaulted] = []
    try:
        found = reader_for(type_)(value, None, mended)
    except Rejected as refused:
        raise ValueError(str(refused)) from None
    if mended:
        raise ValueError("not without forgiveness")
    return found


def _decode_leniently(type_: Any, raw: Source, report: Report | None) -> Any:
    value = _parse(raw)
    mended: list[Defaulted] = []
    try:
        found = _read(type_, value, mended)
    except Rejected as refused:
        raise InvalidParams(str(refused)) from None
    except RecursionError:
        _refuse("nested too deep")
    except OverflowError:
        _refuse("number out of range")
    if report is not None:
        for entry in mended:
            report(entry)
    return found


def _read(type_: Any, value: JsonValue, mended: list[Defaulted]) -> Any:
    try:
        return reader_for(type_)(value, None, mended)
    except UnknownType:
        # msgspec alone knows such a type, and names the place its own way.
        return _convert(type_, value)


def _convert(type_: Any, value: JsonValue) -> Any:
    try:
        return msgspec.convert(value, type_, dec_hook=_read_choice)
    except ValidationError as error:
        problem, _, place = str(error).partition(" - at `")
        _refuse(problem.replace("`", ""), place.rstrip("`") or "$")


def _parse(raw: Source) -> JsonValue:
    try:
        return msgspec.json.decode(raw)
    except (DecodeError, UnicodeDecodeError) as error:
        return _parse_with_repairs(raw, str(error).partition(" - at ")[0])
    except RecursionError:
        _refuse("nested too deep")


def _parse_with_repairs(raw: Source, problem: str) -> JsonValue:
    """The standard library reads what msgspec does not: half a surrogate pair, which becomes U+FFFD."""
    try:
        # Decoded first: from bytes it would guess the encoding, and JSON is UTF-8.
        return _repaired(json.loads(bytes(raw).decode(), parse_constant=_not_json))
    except RecursionError:
        _refuse("nested too deep")
    except ValueError:
        _refuse(f"unreadable JSON: {problem}")


def _repaired(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if is_array(value):
        return [_repaired(item) for item in value]
    if is_object(value):
        return {_repaired(key): _repaired(item) for key, item in value.items()}
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(value)
    return value


def _not_json(name: str) -> Never:
    raise ValueError(name)


def _refuse(problem: str, path: str = "$") -> Never:
    raise InvalidParams(f"{path}: {problem}")


def _is_null(raw: Source) -> bool:
    # Parameters may be megabytes: look at a few bytes before copying any.
    return len(memoryview(raw)) <= _NULL_AT_MOST and bytes(raw).strip() == b"null"
