"""Write a conversation as Markdown that contains no HTML, fetches nothing and keeps code as it is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from io import TextIOBase

from duologue.conversation.tool_content import FileChange
from duologue.recording.format import Header
from duologue.sanitize import escape_line, safe_markdown, sanitize
from duologue.trace.item_queue import ConversationItem

MAX_DIFF_LINES = 2000
"""Lines of a changed file, before and after together, that are compared."""

_SPEAKERS = {"user": "User", "agent": "Agent"}
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})")
_CODE = re.compile(r"(?<![\\`])(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)")
_SPECIAL = re.compile(r"([\\`*\[\]])")
_MARKS = {"pending": " ", "in_progress": " ", "completed": "x"}


def write_markdown(header: Header, items: Iterable[ConversationItem], out: TextIOBase) -> None:
    """Write the conversation of a recording as a Markdown document."""
    out.write("# Conversation\n\n")
    if header.started:
        out.write(f"Recorded {_inline(header.started)}")
        out.write(f", agent {_code(' '.join(header.agent))}\n" if header.agent else "\n")
    is_list = False
    for item in items:
        lines, is_item = _lines(item)
        out.write("" if (is_list and is_item) or item.continues else "\n")
        out.writelines(f"{line}\n" for line in lines)
        is_list = is_item


def _lines(item: ConversationItem) -> tuple[Iterable[str], bool]:
    """Return the lines of an item, and True if they are an item of a list."""
    match item.kind:
        case "prompt" | "message":
            return _message(item), False
        case "plan":
            steps = [f"- [{_MARKS.get(each.status, ' ')}] {_inline(each.content)}" for each in item.entries]
            return ["### Plan", "", *steps, *(safe_lines(item.text) if item.text else ())], False
        case "tool_call":
            return _tool(item), True
        case "stderr":
            return ["- stderr", "", *_fenced(item.text, indent="  ")], True
        case _:
            return [f"- {_sentence(item)}"], True


def _message(item: ConversationItem) -> Iterator[str]:
    if item.role == "thought":
        yield from (f"> {line}" for line in safe_lines(item.text))
        return
    if not item.continues:
        yield f"## {_SPEAKERS.get(item.role or 'user', 'Agent')}"
        yield ""
    yield from safe_lines(item.text)


def _tool(item: ConversationItem) -> Iterator[str]:
    kind = f"**{_inline(item.tool_kind)}**: " if item.tool_kind else ""
    yield f"- {kind}{_inline(item.title or item.tool_call_id)} ({_inline(item.status)}{_seconds(item)})"
    for change in item.changes:
        yield ""
        yield from _fenced("\n".join(_diff(change)), "diff", indent="  ")
    if item.text.strip():
        yield ""
        yield from _fenced(item.text, indent="  ")


def _sentence(item: ConversationItem) -> str:
    text, title, status = _inline(item.text), _inline(item.title), _inline(item.status)
    match item.kind:
        case "session":
            return f"{title} {_code(item.session)}" + (f" in {_code(item.text)}" if item.text else "")
        case "permission":
            return f"**permission** for {title or 'a tool call'}: {' / '.join(map(_inline, item.options))}"
        case "permission_answer":
            return f"**answer**: {text}{_seconds(item)}"
        case "stop":
            return f"**turn ended**: {status}" + (f": {text}" if text else "") + _seconds(item)
        case "error":
            return f"**{title or 'response'} failed**: {text}"
        case "exit":
            return f"the agent ended with exit code {status}"
        case "gap":
            return f"{text} frames are missing here"
        case "invalid":
            return f"**not a message**: {text}"
        case _:
            return " ".join(filter(None, [title, text])) + _seconds(item)


def safe_lines(text: str) -> Iterator[str]:
    """Yield the lines of Markdown text: code stays as it is, HTML outside of it becomes text, and code is closed."""
    fence = ""
    for line in sanitize(text).strip("\n").split("\n"):
        if fence:
            yield line
            if re.fullmatch(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}} *", line):
                fence = ""
        elif (found := _FENCE.match(line)) is not None:
            fence = found["fence"]
            yield safe_markdown(line)
        else:
            yield _safe_line(line)
    if fence:
        yield fence


def _safe_line(line: str) -> str:
    parts: list[str] = []
    at = 0
    for found in _CODE.finditer(line):
        parts += [safe_markdown(line[at : found.start()]), found[0]]
        at = found.end()
    return "".join([*parts, safe_markdown(line[at:])])


def _inline(text: str) -> str:
    """Return text for the inside of a line, with nothing in it that Markdown would act on."""
    return _SPECIAL.sub(r"\\\1", safe_markdown(escape_line(text, 500)))


def _code(text: str) -> str:
    return f"`` {escape_line(text, 500).replace('`', chr(39))} ``" if "`" in text else f"`{escape_line(text, 500)}`"


def _fenced(text: str, language: str = "", indent: str = "") -> Iterator[str]:
    """Yield a block of code with a fence that is longer than any in the text."""
    shown = sanitize(text).strip("\n")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{indent}{fence}{language}"
    yield from (f"{indent}{line}" for line in shown.split("\n"))
    yield f"{indent}{fence}"


def _diff(change: FileChange) -> Iterable[str]:
    old, new = (change.old_text or "").splitlines(), (change.new_text or "").splitlines()
    path = escape_line(change.path)
    if change.patch is not None and not old and not new:
        return change.patch.splitlines()
    if len(old) + len(new) > MAX_DIFF_LINES:
        return [f"{path}: {len(old):,} lines become {len(new):,}"]
    return difflib.unified_diff(old, new, f"a{path}", f"b{path}", lineterm="")


def _seconds(item: ConversationItem) -> str:
    if item.seconds is None:
        return ""
    return f", {item.seconds * 1000:.0f} ms" if item.seconds < 1 else f", {item.seconds:,.1f} s"
