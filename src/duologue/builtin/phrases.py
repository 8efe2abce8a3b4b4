"""Plain words: which command a person most likely means. No model, a few patterns."""

from __future__ import annotations

import re

__all__ = ["command_for"]

_PATTERNS: list[tuple[str, str]] = [
    (r"^(?:hi|hello|hey)\b.*", "hello"),
    (r".*\b(?:what can you do|help|how do(?:es)? (?:this|you) work)\b.*", "help"),
    (r"^(?:show me |read |open |cat )(?:the file )?(?P<arg>[\w./-]+\.\w+)\W*$", "read"),
    (r"^(?:search|grep|find|look) (?:for )?(?P<arg>.+?)\W*$", "search"),
    (r"^(?:run|execute) `?(?P<arg>.+?)`?$", "run"),
    (r".*\b(?:show|make|draw)\b.*\bplan\b.*", "plan"),
    (r".*\bdiff\b.*", "edit"),
    (r".*\b(?:picture|image)\b.*", "image"),
    (r".*\b(?:sound|audio)\b.*", "audio"),
    (r".*\bpermission\b.*", "permission"),
    (r".*\b(?:think|reason)\b.*", "think"),
    (r".*\b(?:list|ls)\b.*\bfiles\b.*", "files"),
]


def command_for(text: str) -> tuple[str, str]:
    """The command and its argument for a prompt without a slash; `echo` when nothing fits."""
    said = text.strip()
    for pattern, name in _PATTERNS:
        found = re.match(pattern, said, re.IGNORECASE | re.DOTALL)
        if found:
            return name, found.groupdict().get("arg") or ""
    return "echo", said
