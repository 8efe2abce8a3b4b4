"""The text in the raw output of a tool, which has no schema: agents have names of their own for it."""

from __future__ import annotations

from typing import cast

__all__ = ["text_of_raw_output"]

KEYS: tuple[tuple[str, ...], ...] = (
    ("aggregatedoutput",),  # codex: stdout and stderr as they came
    ("formattedoutput",),
    ("stdout", "stderr"),
    ("output",),
    ("content",),  # results of MCP tools: blocks of content
    ("text",),
    ("result",),
    ("error",),
    ("message",),
)
"""Where the text of a tool stands, best first; what stands under the names of one row is run together."""

DEPTH = 4
"""How far down text is looked for: a block of content in a list in a result in an answer."""


def text_of_raw_output(raw: object, depth: int = DEPTH) -> str:
    """The text in the raw output of a tool; empty if there is none under the names that agents use."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, list) and depth:
        return "\n".join(text for part in cast("list[object]", raw) if (text := text_of_raw_output(part, depth - 1)))
    if isinstance(raw, dict) and depth:
        fields = cast("dict[str, object]", raw)
        named = {key.replace("_", "").lower(): value for key, value in fields.items()}
        found = ("".join(text_of_raw_output(named.get(key), depth - 1) for key in keys) for keys in KEYS)
        return next((text for text in found if text), "")
    return ""
