"""Messages as long as a server accepts, made to be slow to parse."""

from __future__ import annotations

from collections.abc import Callable

HEAD = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"sessionId":"s","text":"id, \\u0069d","id":1,"more":'
TAIL = b"}}"
MANY = b"[]," * 300
"""Enough brackets to require checking their order."""


def array(piece: bytes, size: int) -> bytes:
    """Return an array of many of these."""
    return HEAD + b"[" + MANY + piece * (size // len(piece)) + b"0]" + TAIL


def members(size: int) -> bytes:
    """Return an object with more names than are checked, and a duplicate."""
    return HEAD[:-7] + b",".join(b'"%07x":0' % number for number in range(size // 12)) + TAIL


def resume_request(size: int) -> bytes:
    """Return an `initialize` that requests resumption as our own clients do, with much more metadata."""
    meta = b'{"duologue/resume":{"version":1},"more":[' + b"[]," * (size // 3) + b"0]}"
    return b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"_meta":' + meta + b"}}"


LONGEST: dict[str, Callable[[int], bytes]] = {
    "a name again and again, deep inside": lambda size: array(b'{"id":0},', size),
    "many names": members,
    "a duplicate name": lambda size: array(b'"id",', size)[:-2] + b',"sessionId":"t"}}',
    "empty strings": lambda size: array(b'"",', size),
    "strings of brackets": lambda size: array(b'["[["],', size),
    "brackets": lambda size: array(b"[],", size),
    "brackets in towers": lambda size: array(b"[" * 190 + b"]" * 190 + b",", size),
    "numbers": lambda size: array(b"1,", size),
    "escapes": lambda size: array(b'"\\n\\"\\\\",', size),
    "half surrogates": lambda size: HEAD + b'"' + b"\\ud800" * (size // 6) + b'"' + TAIL,
    "whole surrogates and a half one": lambda size: HEAD + b'"' + b"\\ud83d\\ude00" * (size // 12) + b'\\ud800"' + TAIL,
    "no end": lambda size: HEAD + b'"' + b"\\n" * (size // 2) + b"\\ud800",
    "brackets that never close": lambda size: HEAD + b"[" * size,
    "not this version of JSON-RPC": lambda size: array(b"[],", size).replace(b'"2.0"', b'"1.0"', 1),
}
