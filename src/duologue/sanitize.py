r"""Make text of a peer safe to show, log, send or store.

`sanitize` removes what acts on a terminal, `strip_terminal_controls` does so and keeps colours. `escape_line`,
`escape_bytes` and `quote` spell such characters out (`\x1b`) so that they are seen. `shorten` cuts. `safe_markdown` is
for notebooks.
"""

from __future__ import annotations

import re
from functools import cache

MOST_CHARACTERS = 200
"""Characters of a text that fit into one line of a prompt or a log."""

# Compiled when first needed, as are the patterns below: that takes longer than most programs need to start.
_LONE_SURROGATE = "[\ud800-\udfff]"
_ESCAPED = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"


@cache
def _sequence() -> re.Pattern[str]:
    # Each alternative is a whole sequence of ECMA-48, in its 7-bit and 8-bit form. One that has no end loses only the
    # character that would start it, so that nothing can hide what follows.
    return re.compile(
        r"""
        (?P<colour> \x1b\[ [0-9;:]*+ m )                       # how text looks
        | (?: \x1b\[ | \x9b ) [0-?]*+ [ -/]*+ [@-~]            # cursor, screen, modes, device queries
        | (?: \x1b[\]PX^_] | [\x90\x98\x9d-\x9f] )              # title, clipboard, links, images
          [^\x07\x1b\x90-\x9f]*+ (?: \x07 | \x1b\\ | \x9c )
        | \x1b [ -/]*+ [0-OQ-WYZ\\`-~]                         # character sets, reset, keypad
        | (?P<line_end> \r\n? )
        | [\x00-\x08\x0b-\x1f\x7f-\x9f]                       # single control codes
        | [\u202a-\u202e\u2066-\u2069]                         # text read in another order
        """,
        re.VERBOSE,
    )


@cache
def _control() -> re.Pattern[str]:
    return re.compile(
        r"""
        \x1b\[ [0-9;:]*+ m                                            # colours
        | [\x00-\x08\x0b-\x1f\x7f-\x9f]                               # control characters but tab and line feed
        | [\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]              # text read in another order
        | [\u2028\u2029]                                              # further ends of lines
        | [\xad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb]   # characters that are not seen
        | [\U0001d173-\U0001d17a\U000e0000-\U000e007f]
        """,
        re.VERBOSE,
    )


def sanitize(text: str) -> str:
    """Remove what acts on a terminal, changes the reading order or is invisible; line feeds and tabs stay."""
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return _control().sub("", strip_terminal_controls(text))


def strip_terminal_controls(text: str) -> str:
    """Keep text and its colours; remove titles, clipboard access, links, queries and cursor movements.

    A carriage return starts a new line instead of overwriting the one before.
    """
    return _sequence().sub(_colour_or_newline, text)


def _colour_or_newline(found: re.Match[str]) -> str:
    return found["colour"] or ("\n" if found["line_end"] else "")


def escape_line(text: str, most: int | None = MOST_CHARACTERS) -> str:
    r"""Return one line in which control codes, line breaks and invisible characters are spelt out (`\x1b`).

    A text longer than `most` characters is cut, and the line says how long it was.
    """
    cut = text if most is None else text[:most]
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in cut)
    return shown if len(cut) == len(text) else f"{shown}… ({len(text):,} characters)"


def escape_bytes(data: bytes) -> str:
    """Decode UTF-8; spell out invalid bytes, control codes and marks that change the reading order."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return re.sub(_ESCAPED, lambda found: found[0].encode("unicode_escape").decode(), text)


def shorten(text: str, limit: int) -> str:
    """Return the text, cut after `limit` characters and ended with `…` if it is longer."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def safe_markdown(text: str) -> str:
    """Return Markdown of a peer that a notebook can show: no HTML, no images that are fetched, no links to scripts."""
    shown = sanitize(text).replace("&", "&amp;").replace("<", "&lt;").replace("![", "[")
    return re.sub(r"(?i)(script)(\\?:)", r"\1 \2", shown)


def quote(value: object, limit: int = MOST_CHARACTERS) -> str:
    """Return a peer's value in ASCII for a log line: escaped, so that it cannot forge another line, and cut."""
    text = ascii(value if value is None or isinstance(value, (str, bytes, int)) else str(value))
    return shorten(text, limit)


def replace_lone_surrogates(text: str) -> str:
    """Replace each half of a surrogate pair by U+FFFD: it has no UTF-8 and can be neither sent nor stored."""
    return re.sub(_LONE_SURROGATE, "\ufffd", text)
