"""Build the inspector page: one HTML file with its style, its program and, for an export, its data.

No text of a recording becomes HTML. Data is compressed and written in base64, whose letters mean nothing to HTML.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>duologue inspector</title>
<style>{style}</style>
</head>
<body>
<div id="app"><p class="loading">Reading the recording …</p></div>
<noscript><p class="loading">This page needs JavaScript. It loads nothing from elsewhere.</p></noscript>
"""


@cache
def _static(name: str) -> str:
    return files("duologue.inspector").joinpath("static", name).read_text("utf-8")


def _source_of(text: str) -> str:
    """Return the source expression of an inline element for a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def policy(*, is_served: bool) -> str:
    """Return the content security policy: only the page's own program and style, no HTML from text."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_source_of(_static('inspector.js'))}",
            f"style-src {_source_of(_static('inspector.css'))}",
            "img-src data:",
            "connect-src 'self'" if is_served else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def page_start(*, is_served: bool) -> str:
    """Return the page up to its data."""
    return _HEAD.format(policy=policy(is_served=is_served), style=_static("inspector.css"))


def page_end() -> str:
    """Return the page after its data."""
    return f"<script>{_static('inspector.js')}</script>\n</body>\n</html>\n"


def data_element(name: str, value: Any) -> str:
    """Return an element with a value as JSON, compressed; the browser does not run it."""
    packed = base64.b64encode(gzip.compress(msgspec.json.encode(value), 6, mtime=0)).decode()
    return f'<script type="application/gzip" id="data-{name}">{packed}</script>\n'
