"""Guess the kind of a tool from its name: good enough for an icon, and the author can override it."""

from __future__ import annotations

import re

__all__ = ["guess_tool_kind"]

_WORDS: list[tuple[str, str]] = [
    ("delete", "delete|remove|unlink"),
    ("move", "move|rename"),
    ("execute", "run|exec|execute|shell|bash|terminal|command"),
    ("search", "search|find|grep|query|lookup"),
    ("fetch", "fetch|http|url|web|download|browse"),
    ("edit", "write|edit|create|update|insert|replace|patch|save|append"),
    ("read", "read|get|list|load|show|open|cat"),
    ("think", "think|plan|reason"),
]


def guess_tool_kind(name: str) -> str:
    """Return the kind: `read_file` is `read`, `run_tests` is `execute`, `frobnicate` is `other`."""
    words = set(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))
    return next((kind for kind, known in _WORDS if words & set(known.split("|"))), "other")
