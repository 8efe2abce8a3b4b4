"""Texts with which an agent would take over a report: markup, formulas, control codes, and much of it."""

from __future__ import annotations

HOSTILE = (
    "</pre></style></svg><script>document.title='taken'</script><img src=x onerror=alert(1)>"
    "<iframe src='https://example.com/'></iframe><a href='javascript:alert(1)'>x</a>\" onmouseover=\"alert(1)"
    ']]>&lt;!--\x1b[31m\x00\u202e|`*_ =1+1,"\r\n'
)
HUGE = HOSTILE + "x" * 200_000
