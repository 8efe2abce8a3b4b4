"""Messages of version 2, and the form they have after they were read and written again."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import msgspec

from duologue.schema.codec import encode
from duologue.schema.lenient_errors import is_array, is_object
from tests.wire.vectors import vectors

__all__ = ["canonical", "golden", "rewritten", "with_real_output"]

LEAVES = {"capabilities", "cancel", "cost", "input", "output", "patch", "plan"}
"""Members whose `_meta` is not kept: markers, and values that are part of the object around them."""


def golden(definition: str) -> list[Any]:
    """Return the golden vectors of a definition."""
    return [json.loads(bytes(vector.wire)) for _, vector in vectors("v2") if vector.definition == definition]


def canonical(value: Any) -> Any:
    """Return the JSON of a model."""
    return msgspec.json.decode(encode(value))


def rewritten(value: Any) -> Any:
    """Return the JSON that means the same in our form: `_meta` of leaves is removed, and diffs are merged."""
    if is_array(value):
        return _merge_diffs([rewritten(item) for item in value])
    if is_object(value) and (str(value.get("type")).startswith("_") or value.get("changes") == []):
        return value  # unknown, or treated as unknown
    if is_object(value):
        members = {key: rewritten(item) for key, item in value.items()}
        for leaf in LEAVES & set(members):
            if is_object(members[leaf]) and not str(members[leaf].get("type", "")).startswith("_"):
                members[leaf] = {key: item for key, item in members[leaf].items() if key != "_meta"}
        return members
    return value


def with_real_output(update: dict[str, Any]) -> dict[str, Any]:
    """Return the update with valid base64 where base64 is required."""
    match update:
        case {"sessionUpdate": "terminal_output_chunk"}:
            return {**update, "data": "aGk="}
        case {"sessionUpdate": "terminal_update", "output": {"data": _, **rest}}:
            return {**update, "output": {"data": "/w==", **rest}}
        case _:
            return update


def _merge_diffs(items: list[Any]) -> list[Any]:
    merged_items: list[Any] = []
    for key, run in groupby(items, _group_key):
        diffs = list(run)
        if key is None:
            merged_items += diffs
            continue
        merged: dict[str, Any] = {"type": "diff", "changes": [change for diff in diffs for change in diff["changes"]]}
        texts = [diff["patch"]["text"] for diff in diffs if "patch" in diff]
        if texts:
            terminated = [text if text.endswith("\n") else f"{text}\n" for text in texts[:-1]]
            merged["patch"] = {"format": key[1], "text": "".join([*terminated, texts[-1]])}
        merged_items.append(merged if key[0] is None else {**merged, "_meta": key[0]})
    return merged_items


def _group_key(item: Any) -> tuple[Any, str] | None:
    if not is_object(item) or item.get("type") != "diff" or not item["changes"]:
        return None
    return item.get("_meta"), item.get("patch", {}).get("format", "git_patch")
