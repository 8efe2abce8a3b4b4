"""Find the command that a prompt in plain English most likely means, by a few patterns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection
from typing import TypeAlias

Found: TypeAlias = re.Match[str]

PATTERNS: tuple[tuple[str, str, Callable[[Found], str]], ...] = (
    (r"(?:hi|hello|hey|good (?:morning|day|evening))\b.{0,20}", "hello", lambda found: ""),
    (r".*\bwhat (?:can|do) you do\b.*|help(?: me)?|.*\bhow do(?:es)? (?:this|you) work\b.*", "help", lambda found: ""),
    (r"(?:please )?(?:run|do|execute)?\s*(?:the |all |my )*tests?", "test", lambda found: ""),
    (r"(?:please )?(?:run|execute) `?(.+?)`?", "run", lambda found: found[1]),
    (r"(?:list|show)(?: me)?(?: all)?(?: the| my)? files|ls|what files are (?:there|here)", "files", lambda found: ""),
    (
        r"(?:show|read|open|cat|print)(?: me)?(?: the)?(?: file)? `?([\w./-]*[./][\w./-]*)`?",
        "read",
        lambda found: found[1],
    ),
    (r"(?:search|grep|look|find)(?: for)? [`'\"]?(.+?)[`'\"]?", "search", lambda found: found[1]),
    (r"where is [`'\"]?(.+?)[`'\"]?", "search", lambda found: found[1]),
    (
        r"write [`'\"]?(.+?)[`'\"]? (?:to|into) `?([^\s`]+)`?",
        "write",
        lambda found: f"{found[2]} {found[1]}",
    ),
    (
        r"(?:replace|change) [`'\"]?(.+?)[`'\"]? (?:with|by|to|into) [`'\"]?(.+?)[`'\"]? in `?([^\s`]+)`?",
        "edit",
        lambda found: shlex.join([found[3], found[1], found[2]]),
    ),
    (r"(?:switch|change|go) (?:in)?to (ask|architect|code)(?: mode)?", "mode", lambda found: found[1]),
    (r"(?:what|which) mode.*", "mode", lambda found: ""),
    (r".*\bhow (?:many|much)\b.*\b(?:tokens?|cost)\b.*", "usage", lambda found: ""),
    (r"think(?: about)? (.+)", "think", lambda found: found[1]),
    (r"ask (?:me )?(?:for )?permission.*", "permission", lambda found: ""),
    (r"ask me.*", "ask", lambda found: ""),
)
"""Pattern, command, and its argument."""

SHOW_ME = r"(?:please )?(?:show|send|give|make|draw|play|do|try)(?: me)?(?: us)?(?: an?| the| some| your)? (.+)"

OTHER_NAMES = {
    "diff": "edit",
    "picture": "image",
    "photo": "image",
    "sound": "audio",
    "music": "audio",
    "form": "ask",
    "question": "permission",
    "thought": "think",
    "link": "links",
    "setting": "config",
    "option": "config",
    "tool": "tools",
    "tool call": "tools",
    "cost": "usage",
    "token": "usage",
    "commands": "help",
}
"""Other words for what a command shows."""


def command_for(text: str, names: Collection[str]) -> tuple[str, str]:
    """Return the command and its argument for a prompt; `echo` if no pattern matches.

    Args:
        text: The text of the prompt.
        names: The known commands. An unknown one with a slash is returned as it is.
    """
    prompt = text.strip()
    if prompt.startswith("/"):
        name, _, argument = prompt[1:].partition(" ")
        return name, argument.strip()
    request = prompt.rstrip(".!? ")
    for pattern, name, argument_of in PATTERNS:
        found = re.fullmatch(pattern, request, re.IGNORECASE)
        if found is not None:
            return name, argument_of(found)
    return _thing_to_show(request, names) or ("echo", prompt)


def _thing_to_show(request: str, names: Collection[str]) -> tuple[str, str] | None:
    found = re.fullmatch(SHOW_ME, request, re.IGNORECASE)
    if found is None:
        return None
    thing = found[1].lower()
    for candidate in (thing, thing.removesuffix("s"), thing.replace(" ", "-")):
        name = OTHER_NAMES.get(candidate, candidate)
        if name in names:
            return name, ""
    return None
