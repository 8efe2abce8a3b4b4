"""Write text of a peer into documents: HTML, Markdown, XML and CSV, in which it stays text."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from html import escape

from duologue.sanitize import MOST_CHARACTERS, escape_line, sanitize

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot have."""
_SPECIAL = str.maketrans({each: f"\\{each}" for each in "\\`*_{}[]<>#|~"})
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of cells that spreadsheets compute."""


def html_text(text: str) -> str:
    """Return text as the content of an element or of a quoted attribute; sanitized, so that nothing is invisible."""
    return escape(sanitize(text), quote=True)


def html_page(title: str, style: str, body: Iterable[str]) -> str:
    """Return a page without scripts that loads nothing; a content security policy allows only its own style.

    Args:
        title: Title of the page, as text.
        style: The style sheet.
        body: Pieces of HTML.
    """
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html_text(title)}</title><style>{style}</style></head><body>",
    ]
    return "\n".join([*head, *body, "</body></html>"]) + "\n"


def markdown_text(text: str, most: int | None = MOST_CHARACTERS) -> str:
    """Return text as one line of Markdown, without markup; cut if it has more than `most` characters."""
    return escape_line(text, most).translate(_SPECIAL)


def markdown_code(text: str, *, in_table: bool = False) -> str:
    """Return text as code in a line of Markdown, or in a row of a table, where a bar would end its cell."""
    code = escape_line(text).replace("`", "'")
    return f"`{code.replace('|', chr(92) + '|') if in_table else code}`"


def xml_text(text: str) -> str:
    """Return text without the characters that XML cannot have; the writer of the XML escapes the others."""
    return _NOT_XML.sub("\ufffd", text)


def csv_cell(value: object) -> str:
    """Return a value as a cell that no spreadsheet takes for a formula: such a text gets a quote in front of it."""
    text = "" if value is None else str(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"'{text}" if text.startswith(_FORMULA) and not is_number else text
