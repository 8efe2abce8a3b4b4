"""Decoding and encoding of models.

Decoding is strict first, at full speed; what fails is decoded again by `lenient`, which tolerates what the schema marks
and rejects the rest with its path. Whatever the bytes are, decoding raises nothing but `InvalidParams`.
Encoding has one form: the tag first, `_meta` last, defaults and Nones left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Never, TypeAlias, TypeVar, cast

import msgspec
import msgspec.inspect
from msgspec import DecodeError, Raw, ValidationError

from duologue.errors import EncodeError, InvalidParams
from duologue.sanitize import replace_lone_surrogates
from duologue.schema.base import JsonValue, Model
from duologue.schema.lenient_errors import Defaulted, Rejected, is_array, is_object
from duologue.schema.unions import TaggedUnion, WireUnion

__all__ = [
    "Defaulted",
    "Report",
    "check_readable",
    "decode",
    "decode_result",
    "decoder_for",
    "encode",
    "strict_decoder_for",
]

T = TypeVar("T")
Report: TypeAlias = Callable[[Defaulted], None]
"""Called for each invalid value that was tolerated."""

Source: TypeAlias = bytes | Raw

_NULL_AT_MOST = 16  # "null" and whitespace around it

# Errors that msgspec may raise on hostile input in addition to its own (UnicodeDecodeError is a ValueError).
_DECODE_FAILURES = (DecodeError, RecursionError, OverflowError, ValueError)


def decoder_for(type_: type[T]) -> Callable[[Source], T]:
    """Return a function that decodes bytes as `type_`; it is built once.

    The function raises `InvalidParams` with the path: `$.prompt[0].text: expected str, got int`.

    Raises:
        TypeError: JSON cannot be read as `type_`, or as a type inside it.
    """
    return cast("Callable[[Source], T]", _decoder(cast("Any", type_)))


def check_readable(type_: Any) -> None:
    """Reject a type that JSON cannot be decoded as, before a message arrives.

    Raises:
        TypeError: JSON cannot be read as `type_`, or as a type inside it.
    """
    if type_ is not Raw and not _is_own(type_):
        _decoder(type_)


def _is_own(type_: object) -> bool:
    """Return True for a model of duologue itself: it needs no check when an agent starts."""
    return isinstance(type_, type) and issubclass(type_, Model) and type_.__module__.startswith("duologue.")


@cache
def _decoder(type_: Any) -> Callable[[Source], Any]:
    if not _is_own(type_) and (foreign := _foreign_type(type_)) is not None:
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
    """Return a function that decodes bytes as `type_` strictly and does not say where it failed; it is built once."""
    return _strict(type_)


def decode(type_: type[T], raw: Source, report: Report | None = None) -> T:
    """Decode `raw` as `type_`; `report` is called for every invalid value that was tolerated.

    Raises:
        InvalidParams: `raw` is invalid, even with the leniency that the schema allows.
    """
    decode_one = decoder_for(type_)
    if report is None:
        return decode_one(raw)
    try:
        return cast("T", _strict(cast("Any", type_))(raw))
    except _DECODE_FAILURES:
        return cast("T", _decode_leniently(type_, raw, report))


def decode_result(type_: type[T], raw: Source, report: Report | None = None) -> T:
    """Decode a result like `decode`; null is read as `{}`, because published agents answer so."""
    if _is_null(raw) and cast("object", type_) is not Any:
        raw = b"{}"
    return decode(type_, raw, report)


_encoder = msgspec.json.Encoder()


def encode(model: JsonValue) -> bytes:
    """Encode a model as JSON in canonical form.

    Raises:
        EncodeError: A value in it cannot be written as JSON.
    """
    try:
        return _encoder.encode(model)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError) as error:
        raise EncodeError(f"{type(model).__name__}: {error}") from error


@cache
def _strict(type_: Any) -> Callable[[Source], Any]:
    decode = msgspec.json.Decoder(type_, dec_hook=_read_union).decode
    return _decode_by_tag(type_, decode) if isinstance(type_, type) and issubclass(type_, TaggedUnion) else decode


def _decode_by_tag(union: type[TaggedUnion], otherwise: Callable[[Source], Any]) -> Callable[[Source], Any]:
    """Return a function that reads the tag first and then the member it names, which is faster than a hook."""
    read_tag = msgspec.json.Decoder(
        msgspec.defstruct("Tagged", [("tag", str | None, None)], rename={"tag": union.tag}, gc=False)
    ).decode
    members = {tag: _strict(member) for tag, member in union.by_tag.items() if member is not None}

    def decode(raw: Source) -> Any:
        tagged: Any = read_tag(raw)
        return members.get(tagged.tag, otherwise)(raw)

    return decode


def _foreign_type(type_: Any) -> type[Any] | None:
    """Return the first type within `type_` that msgspec needs a hook for and that has none."""
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
            if not _is_own(found):
                waiting += [getattr(node, name) for name in node.__struct_fields__]
    return None


def _read_union(type_: Any, value: JsonValue) -> Any:
    """Decode a union that msgspec cannot discriminate by a tag; called by msgspec.

    Values that need leniency are rejected here, so that the lenient pass reports them with their path.
    """
    member = type_.member_of(value)
    if member is not None:
        try:
            if type_.is_list:
                return msgspec.convert((value,), _list_holder(member), dec_hook=_read_union).items
            return msgspec.convert(value, member, dec_hook=_read_union)
        except ValidationError:
            pass  # the lenient reader decides
    from duologue.schema.lenient import reader_for  # needed for invalid messages only

    defaulted: list[Defaulted] = []
    try:
        found = reader_for(type_)(value, None, defaulted)
    except Rejected as rejected:
        raise ValueError(str(rejected)) from None
    if defaulted:
        raise ValueError("needs lenient decoding")
    return found


@cache
def _list_holder(member: Any) -> Any:
    """Return a type that holds a list of `member`: for the list itself msgspec would build a decoder each time."""
    return msgspec.defstruct("ListHolder", [("items", list[member])], array_like=True, gc=False)


def _decode_leniently(type_: Any, raw: Source, report: Report | None) -> Any:
    value = _parse(raw)
    defaulted: list[Defaulted] = []
    try:
        found = _read(type_, value, defaulted)
    except Rejected as rejected:
        raise InvalidParams(str(rejected)) from None
    except RecursionError:
        _reject("nested too deep")
    except OverflowError:
        _reject("number out of range")
    if report is not None:
        for entry in defaulted:
            report(entry)
    return found


def _read(type_: Any, value: JsonValue, defaulted: list[Defaulted]) -> Any:
    from duologue.schema.lenient import UnknownType, reader_for

    try:
        return reader_for(type_)(value, None, defaulted)
    except UnknownType:
        # Only msgspec knows such a type; its errors name the path in another form.
        return _convert(type_, value)


def _convert(type_: Any, value: JsonValue) -> Any:
    try:
        return msgspec.convert(value, type_, dec_hook=_read_union)
    except ValidationError as error:
        problem, _, path = str(error).partition(" - at `")
        _reject(problem.replace("`", ""), path.rstrip("`") or "$")


def _parse(raw: Source) -> JsonValue:
    try:
        return msgspec.json.decode(raw)
    except (DecodeError, UnicodeDecodeError) as error:
        return _parse_with_repairs(raw, str(error).partition(" - at ")[0])
    except RecursionError:
        _reject("nested too deep")


def _parse_with_repairs(raw: Source, problem: str) -> JsonValue:
    """Parse with the standard library, which accepts lone surrogates; they become U+FFFD."""
    import json

    try:
        # Decoded first: from bytes it would guess the encoding, and JSON is UTF-8.
        return _repaired(json.loads(bytes(raw).decode(), parse_constant=_not_json))
    except RecursionError:
        _reject("nested too deep")
    except ValueError:
        _reject(f"unreadable JSON: {problem}")


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


def _reject(problem: str, path: str = "$") -> Never:
    raise InvalidParams(f"{path}: {problem}")


def _is_null(raw: Source) -> bool:
    # Parameters may be megabytes: look at a few bytes before copying any.
    return len(memoryview(raw)) <= _NULL_AT_MOST and bytes(raw).strip() == b"null"
