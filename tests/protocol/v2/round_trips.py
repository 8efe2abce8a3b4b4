"""What version 2 says, golden and generated, and the form it has after it was understood and said again."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import msgspec

from duologue.schema.codec import encode
from duologue.schema.lenient_errors import is_array, is_object
from tests.wire.vectors import vectors

__all__ = ["canonical", "golden", "said_again", "with_real_output"]

LEAVES = {"capabilities", "cancel", "cost", "input", "output", "patch", "plan"}
"""Members whose `_meta` has no place in a conversation: markers, and values that are one thing with what holds them."""


def golden(definition: str) -> list[Any]:
    """The golden vectors of a definition."""
    return [json.loads(bytes(vector.wire)) for _, vector in vectors("v2") if vector.definition == definition]


def canonical(value: Any) -> Any:
    """A model as the JSON it is written as."""
    return msgspec.json.decode(encode(value))


def said_again(value: Any) -> Any:
    """The JSON that means the same in the words we use: what is attached to leaves is gone, and diffs run together."""
    if is_array(value):
        return _with_diffs_together([said_again(item) for item in value])
    if is_object(value) and (str(value.get("type")).startswith("_") or value.get("changes") == []):
        return value  # unknown, or as good as that
    if is_object(value):
        members = {key: said_again(item) for key, item in value.items()}
        for leaf in LEAVES & set(members):
            if is_object(members[leaf]) and not str(members[leaf].get("type", "")).startswith("_"):
                members[leaf] = {key: item for key, item in members[leaf].items() if key != "_meta"}
        return members
    return value


def with_real_output(update: dict[str, Any]) -> dict[str, Any]:
    """The same update; what should be base64 is."""
    match update:
        case {"sessionUpdate": "terminal_output_chunk"}:
            return {**update, "data": "aGk="}
        case {"sessionUpdate": "terminal_update", "output": {"data": _, **rest}}:
            return {**update, "output": {"data": "/w==", **rest}}
        case _:
            return update


def _with_diffs_together(items: list[Any]) -> list[Any]:
    together: list[Any] = []
    for key, run in groupby(items, _belonging):
        diffs = list(run)
        if key is None:
            together += diffs
            continue
        merged: dict[str, Any] = {"type": "diff", "changes": [change for diff in diffs for change in diff["changes"]]}
        texts = [diff["patch"]["text"] for diff in diffs if "patch" in diff]
        if texts:
            ended = [text if text.endswith("\n") else f"{text}\n" for text in texts[:-1]]
            merged["patch"] = {"format": key[1], "text": "".join([*ended, texts[-1]])}
        together.append(merged if key[0] is None else {**merged, "_meta": key[0]})
    return together


def _belonging(item: Any) -> tuple[Any, str] | None:
    if not is_object(item) or item.get("type") != "diff" or not item["changes"]:
        return None
    return item.get("_meta"), item.get("patch", {}).get("format", "git_patch")
