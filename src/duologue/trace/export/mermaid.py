"""Write a conversation as a sequence diagram of Mermaid."""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import TextIOBase

from duologue.recording.format import Header
from duologue.sanitize import escape_line, shorten
from duologue.trace.item_queue import ConversationItem

MAX_ITEMS = 1000
"""Items of a diagram; renderers reject longer ones."""
TEXT_COLUMNS = 60
"""Characters of a text in the diagram."""

_UNSAFE = re.compile(r"[^\w .,…'/=?!+*@^~-]|(?<=\be)n(?=d\b)", re.IGNORECASE)
"""Characters that may mean something to Mermaid, and the keyword `end`."""


def write_mermaid(header: Header, items: Iterable[ConversationItem], out: TextIOBase) -> None:
    """Write the conversation of a recording as a sequence diagram."""
    out.write("sequenceDiagram\n    participant C as Client\n    participant A as Agent\n")
    written = more = 0
    for item in items:
        if item.continues:
            continue
        if written == MAX_ITEMS:
            more += 1
            continue
        written += 1
        out.write(f"    {_line(item)}\n")
    if more:
        out.write(f"    Note over C,A: {more} more\n")


def _line(item: ConversationItem) -> str:
    """Return an arrow between the two sides, or a note."""
    text = _safe(item.text)
    match item.kind:
        case "prompt":
            return f"C->>A: {text}"
        case "message":
            sender = "C->>A" if item.role == "user" else "A->>C"
            return f"{sender}: {'thought, ' if item.role == 'thought' else ''}{text}"
        case "tool_call":
            name = _safe(f"{item.tool_kind} {item.title or item.tool_call_id}".strip())
            return f"A->>A: {name}, {_safe(item.status)}{_seconds(item)}"
        case "plan":
            return f"A->>C: plan, {len(item.entries)} steps"
        case "permission":
            return f"A->>C: permission for {_safe(item.title) or 'a tool call'}?"
        case "permission_answer":
            return f"C-->>A: {text}{_seconds(item)}"
        case "request":
            sender = "A->>C" if item.title.startswith(("fs/", "terminal/", "elicitation/")) else "C->>A"
            return f"{sender}: {_safe(f'{item.title} {item.text}')}{_seconds(item)}"
        case "stop":
            return f"A-->>C: {_safe(f'{item.status} {item.text}'.strip())}{_seconds(item)}"
        case _:
            return _note(item)


def _note(item: ConversationItem) -> str:
    match item.kind:
        case "connection":
            return f"Note over C,A: {_safe(item.text)}"
        case "error":
            return f"Note over C,A: {_safe(f'{item.title} failed, {item.text}')}"
        case "session":
            return f"Note over C,A: {_safe(f'{item.title} {item.session}')}"
        case "exit":
            return f"Note over A: ended with exit code {_safe(item.status)}"
        case "gap":
            return f"Note over C,A: {_safe(item.text)} frames are missing"
        case _:
            return f"Note over A: {_safe(' '.join(filter(None, [item.kind, item.title, item.text])))}"


def _safe(text: str) -> str:
    """Return a short text in which every character that could act on Mermaid is written as its number."""
    line = shorten(" ".join(escape_line(text, 4 * TEXT_COLUMNS).replace("\\n", " ").split()), TEXT_COLUMNS)
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", line)


def _seconds(item: ConversationItem) -> str:
    if item.seconds is None:
        return ""
    return f", {item.seconds * 1000:.0f} ms" if item.seconds < 1 else f", {item.seconds:.1f} s"
