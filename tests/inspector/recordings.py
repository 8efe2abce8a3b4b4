"""Recordings for the tests of the inspector: an ordinary one, a hostile one, and a long one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

HEADER = {"duologue": "recording", "version": 2, "started": "2026-11-16T12:00:00.000+00:00", "agent": ["echo-agent"]}

MARKUP = [
    "</script><script>document.title='hacked'</script>",
    "<!--<script>",
    "]]><img src=x onerror=\"document.title='hacked'\">",
    "<svg/onload=document.title='hacked'>",
    "javascript:document.title='hacked'",
    "</style><style>body{display:none}</style>",
    "${document.title='hacked'}{{constructor.constructor('document.title=1')()}}",
    "&lt;b&gt;&#x3c;script&#x3e;",
    "\u202etxt.exe\u2066 reversed \u200b\u0000\x1b[31m\u2028",
    "\ud800 a lone surrogate",
]
"""Texts that would act if one of them became HTML, CSS, a URL or code."""


def message(t: float, direction: str, **members: Any) -> dict[str, Any]:
    return {"t": t, "dir": direction, "frame": {"jsonrpc": "2.0", **members}}


def update(t: float, text: str, session: str = "s1") -> dict[str, Any]:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return message(t, "to_client", method="session/update", params={"sessionId": session, "update": chunk})


def conversation() -> list[dict[str, Any]]:
    """Return the lines of a short conversation with a request of each side, an error and a message that is wrong."""
    prompt = {"sessionId": "s1", "prompt": [{"type": "text", "text": "fix the test"}]}
    return [
        message(0.0, "to_agent", id=0, method="initialize", params={"protocolVersion": 1}),
        message(0.1, "to_client", id=0, result={"protocolVersion": 1}),
        message(0.1, "to_agent", id=1, method="session/new", params={"cwd": "/project", "mcpServers": []}),
        message(0.3, "to_client", id=1, result={"sessionId": "s1"}),
        message(0.4, "to_agent", id=2, method="session/prompt", params=prompt),
        update(0.9, "I look at "),
        update(1.0, "the test."),
        message(
            1.1, "to_client", id="r", method="fs/read_text_file", params={"sessionId": "s1", "path": "/project/a.py"}
        ),
        message(1.2, "to_agent", id="r", result={"content": "import time\n"}),
        message(1.3, "to_client", method="session/update", params={"sessionId": 5, "update": {}}),
        {"t": 1.4, "stderr": "warning: slow"},
        message(1.5, "to_client", id=2, error={"code": -32603, "message": "overloaded"}),
        {"t": 1.6, "exit_code": 3},
    ]


def hostile(characters: int = 10_000_000) -> Iterator[dict[str, Any]]:
    """Yield lines with markup in every string, and a string of that many characters."""
    for number, text in enumerate(MARKUP):
        named = {"sessionId": text, "prompt": [{"type": "text", "text": text, text: text}], text: {text: [text]}}
        yield message(number, "to_agent", id=text, method=text, params=named)
        yield message(number, "to_client", id=text, result={"sessionId": text, text: text})
        yield message(number, "to_agent", id=number, method="session/prompt", params=named)
        yield update(number, text, text)
        yield message(number, "to_client", id=number, error={"code": -1, "message": text, "data": text})
        yield {"t": number, "stderr": text}
        yield {"t": number, "dir": "to_client", "text": text, "invalid": text}
    yield update(100.0, "<b>" + "x" * characters + "</b>")
    yield {"t": 101.0, "dir": "to_client", "frame": json.loads("[" * 900 + "]" * 900)}
    yield message(102.0, "to_agent", id=1 << 70, method="session/prompt", params={"n": 1 << 70})


def stream(frames: int) -> Iterator[dict[str, Any]]:
    """Yield a prompt with that many updates, and its response."""
    yield message(0.0, "to_agent", id=1, method="session/prompt", params={"sessionId": "s1", "prompt": []})
    for number in range(frames - 2):
        yield update(number / 1000, f"chunk {number} of a long answer ")
    yield message(frames / 1000, "to_client", id=1, result={"stopReason": "end_turn"})


def write(path: Path, lines: Iterable[dict[str, Any]], header: dict[str, Any] = HEADER) -> Path:
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for line in (header, *lines):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return path
