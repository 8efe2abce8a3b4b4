"""Apply a change of a typed value to the JSON it was read from: what the type does not know stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw

_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.encode


def patched(text: bytes | Raw, before: Any, after: Any) -> bytes:
    """Return a JSON text with the difference between two values applied; unchanged members keep their bytes.

    Args:
        text: The JSON text.
        before: What was read from it, as JSON values.
        after: What it is to become, as JSON values.
    """
    known = msgspec.json.decode(text)
    result = _patch(known, before, after)
    if not isinstance(result, dict) or not isinstance(known, dict):
        return _encode(result)
    members = cast("dict[str, Any]", result)
    raw = _decode_members(text)
    same = {name for name in members if name in raw and _is_same(members[name], cast("Any", known)[name])}
    return _encode({name: raw[name] if name in same else value for name, value in members.items()})


def _patch(known: Any, before: Any, after: Any) -> Any:
    if _is_same(before, after):
        return known
    if all(isinstance(each, dict) for each in (known, before, after)):
        return _patch_object(known, before, after)
    if all(isinstance(each, list) for each in (known, before, after)) and len(known) == len(before):
        return _patch_list(known, before, after)
    return after


def _patch_object(known: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    result = {name: value for name, value in known.items() if name in after or name not in before}
    for name, value in after.items():
        if name in known and name in before:
            result[name] = _patch(known[name], before[name], value)
        elif name not in before or not _is_same(before[name], value):  # not a default that the reader filled in
            result[name] = value
    return result


def _patch_list(known: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    """Keep the items that are still there, wherever they are now; patch the others if their number is the same."""
    unused = list(range(len(before)))
    found = [_take(before, unused, value) for value in after]
    is_paired = found.count(None) == len(unused)
    result: list[Any] = []
    for value, index in zip(after, found, strict=True):
        if index is not None:
            result.append(known[index])
        elif is_paired:
            changed = unused.pop(0)
            result.append(_patch(known[changed], before[changed], value))
        else:
            result.append(value)
    return result


def _take(before: Sequence[Any], unused: list[int], value: Any) -> int | None:
    index = next((each for each in unused if _is_same(before[each], value)), None)
    if index is not None:
        unused.remove(index)
    return index


def _is_same(one: Any, other: Any) -> bool:
    """Compare JSON values; unlike `==`, true is not 1."""
    return one == other and _encode(one, order="deterministic") == _encode(other, order="deterministic")
