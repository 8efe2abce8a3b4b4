"""Parsing and serializing of messages; the pitfalls of msgspec are handled here and nowhere else.

Parsing has one fast path, a typed decode, and one slow path that finds out what is wrong. The pitfalls: invalid UTF-8
inside raw fields passes the typed decode unnoticed; `[1,` looks like a type error rather than a syntax error; lone
surrogate escapes make msgspec reject the whole text; depth is limited only by the C stack. Serializing has two: lone
surrogates cannot be encoded as UTF-8, and not every Python value is JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, NoReturn, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.errors import EncodeError, InvalidRequest, ParseError, RequestError
from duologue.jsonrpc.messages import Id, JsonRpcMessage
from duologue.jsonrpc.nesting import is_nested_deeper, outside_strings, pieces_of
from duologue.sanitize import replace_lone_surrogates

PLAIN_NOTIFICATION = b'{"jsonrpc":"2.0","method":"'
"""How every library in use begins a notification; another order of members takes the general path."""


def are_notifications(frames: list[bytes]) -> bool:
    """Return whether all of these frames, at least one, begin like a notification; what sorts between two does, too."""
    return min(frames).startswith(PLAIN_NOTIFICATION) and max(frames).startswith(PLAIN_NOTIFICATION)


METHOD_AT = PLAIN_NOTIFICATION.index(b"m")
METHOD_BYTE = PLAIN_NOTIFICATION[METHOD_AT]
"""The position of the first letter of `method` in it, and that letter: the quickest sign of a notification."""

MAX_DEPTH = 200
"""Nesting of arrays and objects; real messages stay below 20, and 200 is far from the end of every C stack."""

SHALLOW_BYTES = 2 * MAX_DEPTH
"""A frame of this length cannot be nested deeper than that: every bracket must be closed."""

MAX_ID_CHARS = 1024
"""Ids are stored while a request runs, and sent back; a longer one is an attack, not an id."""

MAX_METHOD_CHARS = 1024
"""Method names are logged, and repeated in errors."""

MAX_NUMBER_CHARS = 400
"""Digits of one number: more than any double or 64-bit integer needs, far less than what costs quadratic time."""

MAX_SURROGATES = 100_000
"""Surrogate escapes in a frame up to which lone ones are replaced; most writers do not escape such characters."""

VALUE_BYTES = 32
OBJECT_BYTES = 192
"""The most memory that a value takes in addition to its text, and an object in addition to its members."""

_decode_message = msgspec.json.Decoder(JsonRpcMessage).decode
_decode_any = msgspec.json.Decoder().decode
_decode_raw = msgspec.json.Decoder(Raw).decode
_encode = msgspec.json.Encoder().encode

# Compiled when first needed, which is after a message was rejected.
_LONG_NUMBER = rb"(?<![0-9.eE+-])[0-9.eE+-]{%d}" % (MAX_NUMBER_CHARS + 1)
_SURROGATE = rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|[c-fC-F][0-9a-fA-F]{2})"
"""A surrogate escape, and the second half (1) if it is a pair. It begins with a literal, which is searched quickly."""
_NO_VALUES = bytes(set(range(256)) - set(b",[{"))
"""Everything but the marks that stand before a value, or at the beginning of an array or object."""
_ID_BOUND: int = 10**MAX_NUMBER_CHARS


class Malformed(Exception):
    """A frame that is not a message, with the error to respond and the id to respond to, if it could be read."""

    def __init__(self, error: RequestError, id: Id | None = None, *, is_response: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.id = id
        self.is_response = is_response


def parse(frame: bytes) -> JsonRpcMessage:
    """Parse a frame.

    Raises:
        Malformed: The frame is not a JSON-RPC message.
    """
    try:
        message = _decode_message(frame)
        if not frame.isascii():
            frame.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _parse_slowly(frame)
    if len(frame) > SHALLOW_BYTES and is_nested_deeper(frame, MAX_DEPTH):
        _reject_depth()
    return message


def is_well_formed(frame: bytes) -> bool:
    """Return True if the frame is UTF-8 and not nested too deep: what a typed decode alone does not check."""
    if not frame.isascii():
        try:
            frame.decode()
        except UnicodeDecodeError:
            return False
    return len(frame) <= SHALLOW_BYTES or not is_nested_deeper(frame, MAX_DEPTH)


def _parse_slowly(frame: bytes) -> JsonRpcMessage:
    """Find out what is wrong, or replace lone surrogate escapes by U+FFFD, the one thing that is repaired."""
    try:
        frame.decode()
    except UnicodeDecodeError as error:
        raise Malformed(ParseError(f"not UTF-8 at byte {error.start}")) from None
    if is_nested_deeper(frame, MAX_DEPTH):
        _reject_depth()
    try:
        _decode_raw(frame)
    except msgspec.DecodeError as error:
        return _parse_repaired(frame, error)
    try:
        _reject_envelope(frame)
    except msgspec.ValidationError:
        raise Malformed(InvalidRequest(f"a number is out of range (limit: {MAX_NUMBER_CHARS} characters)")) from None
    try:
        return _decode_message(frame)
    except msgspec.ValidationError as error:  # e.g. an id twice, of which only the last is legal
        raise Malformed(InvalidRequest(str(error))) from None


def _parse_repaired(frame: bytes, reason: msgspec.DecodeError) -> JsonRpcMessage:
    """Parse again with U+FFFD instead of lone `\\ud800` escapes; anything else wrong stays a parse error."""
    repaired = repair_surrogates(frame)
    if repaired is frame:
        raise Malformed(ParseError(f"not JSON: {str(reason).removeprefix('JSON is malformed: ')}")) from None
    return _parse_slowly(repaired)


def repair_surrogates(frame: bytes) -> bytes:
    """Replace each lone surrogate escape by U+FFFD; return a frame with too many surrogates unchanged."""
    found = list(islice(re.finditer(_SURROGATE, frame), MAX_SURROGATES + 1))
    if len(found) > MAX_SURROGATES:
        return frame
    changed = bytearray(frame)
    for match in found:
        # Behind an escaped backslash the first half is text, and only the second can be half of a pair.
        part = 1 if _is_escaped(frame, match.start()) else 0 if match[1] is None else None
        if part is not None and match[part] is not None:
            changed[match.start(part) : match.end(part)] = b"\\ufffd"
    repaired = bytes(changed)
    return frame if repaired == frame else repaired


def _is_escaped(frame: bytes, at: int) -> bool:
    """Return True if an odd number of backslashes stands before this position."""
    size = 64
    while True:
        before = frame[max(0, at - size) : at]
        count = len(before) - len(before.rstrip(b"\\"))
        if count < size:
            return count % 2 == 1
        size *= 16


def _reject_depth() -> NoReturn:
    raise Malformed(ParseError(f"nested deeper than {MAX_DEPTH} levels"))


class _Envelope(Struct, gc=False):
    jsonrpc: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def _reject_envelope(frame: bytes) -> None:
    """Raise for the part of the envelope that the typed decode rejected; nothing else is decoded."""
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
    """Decode a JSON text; an array or object becomes an empty one."""
    text = bytes(text)
    kind = text.lstrip(b" \t\r\n")[:1]
    return [] if kind == b"[" else {} if kind == b"{" else _decode_any(text)


def is_legal_id(id: Id) -> bool:
    """Return True if the id is short enough to store and to send back."""
    return len(id) <= MAX_ID_CHARS if isinstance(id, str) else -_ID_BOUND < id < _ID_BOUND


def _json_name(value: object) -> str:
    if value is None:
        return "null"
    names = {"bool": "a boolean", "int": "a number", "float": "a number", "str": "a string", "list": "an array"}
    return names.get(type(value).__name__, "an object")


def has_long_number(frame: bytes) -> bool:
    """Return True if a number in this frame is longer than the limit; used only when decoding its fields failed."""
    return re.search(_LONG_NUMBER, b"".join(outside_strings(frame))) is not None


def decoded_bytes(text: bytes) -> int:
    """Estimate the memory that a JSON text takes once decoded: an empty array grows from two bytes to fifty.

    Brackets and commas inside of strings are subtracted only if that could make a difference.
    """
    estimate = _bytes_of_values(pieces_of(text))
    if estimate > 2 * len(text) and estimate > 64 * 1024:
        estimate = _bytes_of_values(outside_strings(bytes(text)))
    return len(text) + estimate


def _bytes_of_values(pieces: Iterable[bytes]) -> int:
    values = objects = 0
    for piece in pieces:
        if b"," in piece or b"{" in piece or b"[" in piece:  # not within a long string, such as an image
            marks = piece.translate(None, _NO_VALUES)
            values += len(marks)
            objects += marks.count(b"{")
    return VALUE_BYTES * values + (OBJECT_BYTES - VALUE_BYTES) * objects


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
    """Serialize a request. Params are anything msgspec can encode, a model, a `Raw`, or `UNSET` for none."""
    message = _Request("2.0", id, method, params)
    try:
        return _encode(message)
    except Exception as error:
        return _encode_after_error(message, error)


def serialize_notification(method: str, params: Any) -> bytes:
    """Serialize a notification."""
    message = _Notification("2.0", method, params)
    try:
        return _encode(message)
    except Exception as error:
        return _encode_after_error(message, error)


def serialize_result(id: Id, result: Any) -> bytes:
    """Serialize a successful response."""
    message = _Result("2.0", id, result)
    try:
        return _encode(message)
    except Exception as error:
        return _encode_after_error(message, error)


def serialize_error(id: Id | None, error: RequestError) -> bytes:
    """Serialize an error response; an id of `None` is written as null: the id of the request is unknown."""
    body: dict[str, Any] = {"code": error.code, "message": error.message or type(error).__name__}
    if error.data is not None:
        body["data"] = error.data
    message = _Error("2.0", id, body)
    try:
        return _encode(message)
    except Exception as failure:
        return _encode_after_error(message, failure)


def _encode_after_error(message: Struct, error: Exception) -> bytes:
    """Encode again without lone surrogates; raise `EncodeError` for anything else a value's own code raised."""
    if isinstance(error, UnicodeEncodeError):
        return _encode_repaired(message)
    raise EncodeError(f"cannot be written as JSON: {error}") from error


def _encode_repaired(message: Struct) -> bytes:
    """Encode with U+FFFD instead of lone surrogates, which have no UTF-8."""
    try:
        return _encode(_without_lone_surrogates(msgspec.to_builtins(message, enc_hook=_raw_to_builtins)))
    except Exception as error:
        raise EncodeError(f"cannot be written as JSON: {error}") from error


def _raw_to_builtins(value: Any) -> Any:
    if isinstance(value, Raw):
        return _decode_any(value)
    raise TypeError(f"objects of type {type(value).__name__} are not JSON")


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if isinstance(value, (list, tuple)):
        return [_without_lone_surrogates(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {
            _without_lone_surrogates(key): _without_lone_surrogates(item)
            for key, item in cast("dict[str, Any]", value).items()
        }
    return value
