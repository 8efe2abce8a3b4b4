"""Bytes to envelope and back; every trap of the parser below is dealt with here and nowhere else.

Reading has one fast path, a typed decode, and one slow path that finds out what is wrong. The traps: invalid UTF-8
inside raw fields passes the typed decode unnoticed; `[1,` looks like a type error rather than a syntax error; lone
surrogate escapes make msgspec refuse the whole text; depth is limited only by the C stack. Writing has two: lone
surrogates cannot be encoded as UTF-8, and not every Python value is JSON.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, NoReturn, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.errors import EncodeError, InvalidRequest, ParseError, RequestError
from duologue.jsonrpc.messages import Id, JsonRpcMessage
from duologue.jsonrpc.nesting import is_nested_deeper, outside_strings
from duologue.sanitize import replace_lone_surrogates

__all__ = [
    "MAX_DEPTH",
    "MAX_ID_CHARS",
    "MAX_METHOD_CHARS",
    "MAX_NUMBER_CHARS",
    "MAX_SURROGATES",
    "OBJECT_BYTES",
    "SHALLOW_BYTES",
    "Malformed",
    "decoded_bytes",
    "has_long_number",
    "is_legal_id",
    "is_well_formed",
    "mend_surrogates",
    "parse",
    "serialize_error",
    "serialize_notification",
    "serialize_request",
    "serialize_result",
]

MAX_DEPTH = 200
"""Nesting of arrays and objects; real messages stay below 20, and 200 is far from every C stack's end."""

SHALLOW_BYTES = 2 * MAX_DEPTH
"""A frame of this length cannot be nested deeper than that: what is opened must be closed."""

MAX_ID_CHARS = 1024
"""Ids are kept while a request runs and echoed; a longer one is an attack, not an id."""

MAX_METHOD_CHARS = 1024
"""Method names are logged and echoed in errors."""

MAX_NUMBER_CHARS = 400
"""Digits of one number: more than any double or 64-bit integer needs, far less than what costs quadratic time."""

MAX_SURROGATES = 100_000
"""Surrogate escapes among which lone ones are mended; most writers do not escape what lies beyond the first plane."""

VALUE_BYTES = 32
OBJECT_BYTES = 192
"""What a value takes in memory beside its text, and what an object takes beside its members, at most."""

_decode_message = msgspec.json.Decoder(JsonRpcMessage).decode
_decode_any = msgspec.json.Decoder().decode
_decode_raw = msgspec.json.Decoder(Raw).decode
_encode = msgspec.json.Encoder().encode

_LONG_NUMBER = re.compile(rb"(?<![0-9.eE+-])[0-9.eE+-]{%d}" % (MAX_NUMBER_CHARS + 1))
_SURROGATE = re.compile(rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|[c-fC-F][0-9a-fA-F]{2})")
"""A surrogate escape, and the second half (1) if it is a pair. It begins with a literal, which is searched quickly."""
_ID_BOUND: int = 10**MAX_NUMBER_CHARS


class Malformed(Exception):
    """A frame that is no message: the error to answer with, and the id to answer to where one could be read."""

    def __init__(self, error: RequestError, id: Id | None = None, *, is_response: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.id = id
        self.is_response = is_response


def parse(frame: bytes) -> JsonRpcMessage:
    """One frame as a message.

    Raises:
        Malformed: It is none.
    """
    try:
        message = _decode_message(frame)
        if not frame.isascii():
            frame.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _parse_slowly(frame)
    if len(frame) > SHALLOW_BYTES and is_nested_deeper(frame, MAX_DEPTH):
        _refuse_depth()
    return message


def is_well_formed(frame: bytes) -> bool:
    """What `parse` asks of a frame besides its shape, for those who decode the shape by themselves."""
    if not frame.isascii():
        try:
            frame.decode()
        except UnicodeDecodeError:
            return False
    return len(frame) <= SHALLOW_BYTES or not is_nested_deeper(frame, MAX_DEPTH)


def _parse_slowly(frame: bytes) -> JsonRpcMessage:
    """Name what is wrong, or mend the one thing that may be mended: lone surrogate escapes become U+FFFD."""
    try:
        frame.decode()
    except UnicodeDecodeError as error:
        raise Malformed(ParseError(f"not UTF-8 at byte {error.start}")) from None
    if is_nested_deeper(frame, MAX_DEPTH):
        _refuse_depth()
    try:
        _decode_raw(frame)
    except msgspec.DecodeError as error:
        return _parse_mended(frame, error)
    try:
        _refuse_shape(frame)
    except msgspec.ValidationError:
        raise Malformed(InvalidRequest(f"a number is out of range (limit: {MAX_NUMBER_CHARS} characters)")) from None
    try:
        return _decode_message(frame)
    except msgspec.ValidationError as error:  # e.g. an id twice, of which only the last is legal
        raise Malformed(InvalidRequest(str(error))) from None


def _parse_mended(frame: bytes, reason: msgspec.DecodeError) -> JsonRpcMessage:
    """Lone `\\ud800` escapes become U+FFFD, every other byte stays; whatever else is wrong stays a parse error."""
    mended = mend_surrogates(frame)
    if mended is frame:
        raise Malformed(ParseError(f"not JSON: {str(reason).removeprefix('JSON is malformed: ')}")) from None
    return _parse_slowly(mended)


def mend_surrogates(frame: bytes) -> bytes:
    """Return the frame with U+FFFD for each lone surrogate escape; a frame with too many surrogates as it is."""
    found = list(islice(_SURROGATE.finditer(frame), MAX_SURROGATES + 1))
    if len(found) > MAX_SURROGATES:
        return frame
    changed = bytearray(frame)
    for match in found:
        # Behind an escaped backslash the first half is text, and only the second can be half of a pair.
        part = 1 if _is_escaped(frame, match.start()) else 0 if match[1] is None else None
        if part is not None and match[part] is not None:
            changed[match.start(part) : match.end(part)] = b"\\ufffd"
    mended = bytes(changed)
    return frame if mended == frame else mended


def _is_escaped(frame: bytes, at: int) -> bool:
    """Whether an odd number of backslashes stands before this place."""
    size = 64
    while True:
        before = frame[max(0, at - size) : at]
        count = len(before) - len(before.rstrip(b"\\"))
        if count < size:
            return count % 2 == 1
        size *= 16


def _refuse_depth() -> NoReturn:
    raise Malformed(ParseError(f"nested deeper than {MAX_DEPTH} levels"))


class _Envelope(Struct, gc=False):
    jsonrpc: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def _refuse_shape(frame: bytes) -> None:
    """Valid JSON that the typed decode refused: say which part of the envelope is wrong, and decode nothing else."""
    value = _shallow(frame)
    if isinstance(value, list):
        raise Malformed(InvalidRequest("batches are not part of ACP"))
    if not isinstance(value, dict):
        raise Malformed(InvalidRequest(f"a message is a JSON object, not {_json_name(value)}"))
    envelope = msgspec.structs.asdict(_decode_envelope(frame))
    members = {name: _shallow(value) for name, value in envelope.items() if value is not UNSET}
    id = members.get("id")
    has_good_id = (isinstance(id, str) or (isinstance(id, int) and not isinstance(id, bool))) and is_legal_id(id)
    is_response = "method" not in members and ("result" in members or "error" in members)
    answer_to = id if has_good_id else None
    if "id" in members and not has_good_id:
        reason = f"an id is a string or an integer of at most {MAX_ID_CHARS} characters, not {_json_name(id)}"
    elif members.get("jsonrpc") != "2.0":
        reason = 'jsonrpc must be "2.0"'
    elif "method" in members and not isinstance(members["method"], str):
        reason = f"method must be a string, not {_json_name(members['method'])}"
    elif "method" not in members and not is_response:
        reason = "neither a method nor a result nor an error"
    else:
        return
    raise Malformed(InvalidRequest(reason), answer_to, is_response=is_response)


def _shallow(text: bytes | Raw) -> Any:
    """The value of a JSON text; of an array or object only that it is one."""
    text = bytes(text)
    kind = text.lstrip(b" \t\r\n")[:1]
    return [] if kind == b"[" else {} if kind == b"{" else _decode_any(text)


def is_legal_id(id: Id) -> bool:
    """Short enough to keep and to echo."""
    return len(id) <= MAX_ID_CHARS if isinstance(id, str) else -_ID_BOUND < id < _ID_BOUND


def _json_name(value: object) -> str:
    if value is None:
        return "null"
    names = {"bool": "a boolean", "int": "a number", "float": "a number", "str": "a string", "list": "an array"}
    return names.get(type(value).__name__, "an object")


def has_long_number(frame: bytes) -> bool:
    """Whether a number in this frame is longer than the limit; asked only when decoding its fields failed."""
    return _LONG_NUMBER.search(b"".join(outside_strings(frame))) is not None


def decoded_bytes(text: bytes) -> int:
    """The memory that a JSON text may take once it is read: an empty array is two bytes here and fifty there.

    What stands in strings is told from the rest only where that could make a difference.
    """
    estimate = _bytes_of_values(text)
    if estimate > 2 * len(text) and estimate > 64 * 1024 and b'"' in text:
        estimate = sum(map(_bytes_of_values, outside_strings(text)))
    return len(text) + estimate


def _bytes_of_values(text: bytes) -> int:
    objects = text.count(b"{")
    return VALUE_BYTES * (text.count(b",") + text.count(b"[") + objects) + (OBJECT_BYTES - VALUE_BYTES) * objects


class _Request(Struct, gc=False):
    jsonrpc: str
    id: Id
    method: str
    params: Any


class _Notification(Struct, gc=False):
    jsonrpc: str
    method: str
    params: Any


class _Result(Struct, gc=False):
    jsonrpc: str
    id: Id
    result: Any


class _Error(Struct, gc=False):
    jsonrpc: str
    id: Id | None
    error: dict[str, Any]


def serialize_request(id: Id, method: str, params: Any) -> bytes:
    """A request as a frame. Params are anything msgspec can encode, a model or raw bytes in a `Raw`; `UNSET`: none."""
    message = _Request("2.0", id, method, params)
    try:
        return _encode(message)
    except Exception as error:
        return _encode_otherwise(message, error)


def serialize_notification(method: str, params: Any) -> bytes:
    """A notification as a frame."""
    message = _Notification("2.0", method, params)
    try:
        return _encode(message)
    except Exception as error:
        return _encode_otherwise(message, error)


def serialize_result(id: Id, result: Any) -> bytes:
    """A successful response as a frame."""
    message = _Result("2.0", id, result)
    try:
        return _encode(message)
    except Exception as error:
        return _encode_otherwise(message, error)


def serialize_error(id: Id | None, error: RequestError) -> bytes:
    """An error response as a frame; an id of `None` is written as null: nobody knows whose it was."""
    body: dict[str, Any] = {"code": error.code, "message": error.message or type(error).__name__}
    if error.data is not None:
        body["data"] = error.data
    message = _Error("2.0", id, body)
    try:
        return _encode(message)
    except Exception as reason:
        return _encode_otherwise(message, reason)


def _encode_otherwise(message: Struct, error: Exception) -> bytes:
    """Whatever a value's own code may raise: its request must still be answered."""
    if isinstance(error, UnicodeEncodeError):
        return _encode_mended(message)
    raise EncodeError(f"cannot be written as JSON: {error}") from error


def _encode_mended(message: Struct) -> bytes:
    """Lone surrogates have no UTF-8; they leave as U+FFFD, which every reader accepts."""
    try:
        return _encode(_mend_text(msgspec.to_builtins(message, enc_hook=_raw_to_builtins)))
    except Exception as error:
        raise EncodeError(f"cannot be written as JSON: {error}") from error


def _raw_to_builtins(value: Any) -> Any:
    if isinstance(value, Raw):
        return _decode_any(value)
    raise TypeError(f"objects of type {type(value).__name__} are not JSON")


def _mend_text(value: Any) -> Any:
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if isinstance(value, (list, tuple)):
        return [_mend_text(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_mend_text(key): _mend_text(item) for key, item in cast("dict[str, Any]", value).items()}
    return value
