"""The messages of the benchmarks: chunk texts, and a mix like one busy turn. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

SESSION = "sess_5f1c0a7e93b24d68"

_PROSE = (
    "The cache is read before it was filled, so the first lookup always misses; moving the check above the loop "
    'fixes that. I have kept the name `load()` and its "lazy" flag, added a test for the naïve case — the one that '
    "failed — and left the rest as it was.\nNext: the same change in the writer, where 3 of 7 calls ignore it. "
)
_ASCII_PROSE = _PROSE.replace("ï", "i").replace("—", "-")


def text(length: int, start: int = 0) -> str:
    """Return prose of this length with quotes, a line end and letters beyond ASCII, as models write it."""
    return (_PROSE * (length // len(_PROSE) + 2))[start : start + length]


CHUNK_TEXTS = [text(20 + 12 * i, 11 * i) if i % 2 else (_ASCII_PROSE * 2)[11 * i : 20 + 23 * i] for i in range(16)]
"""20 to 200 characters each; every other one is plain ASCII."""


def compact(message: Any) -> bytes:
    """Return a message as any of the libraries would write it."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


def chunk(content: str, session: str = SESSION) -> dict[str, Any]:
    """Return one chunk of an agent's message."""
    return _update(
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": content}}, session=session
    )


def mixed_messages() -> list[dict[str, Any]]:
    """Return the messages of a busy turn in realistic proportions: nine of ten are chunks."""
    return [message for times, message in _turn() for _ in range(times)]


def chunk_messages() -> list[dict[str, Any]]:
    """Return chunks only."""
    return [chunk(content) for content in CHUNK_TEXTS * 12]


def _turn() -> Iterator[tuple[int, dict[str, Any]]]:
    program = "\n".join(f"def step_{i}(state):\n    return state | {{{i}}}  # {text(36, 7 * i)!r}" for i in range(28))
    path = "/home/someone/project/steps.py"
    yield (
        1,
        _request(
            "initialize",
            protocolVersion=1,
            clientCapabilities={"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
            clientInfo={"name": "editor", "title": "An editor", "version": "3.1"},
        ),
    )
    server = {"name": "notes", "command": "/usr/bin/notes", "args": ["--stdio"], "env": [{"name": "A", "value": "b"}]}
    yield 1, _request("session/new", cwd="/home/someone/project", mcpServers=[server])
    resource = {"uri": f"file://{path}", "mimeType": "text/x-python", "text": program}
    yield (
        2,
        _request(
            "session/prompt",
            sessionId=SESSION,
            prompt=[{"type": "text", "text": text(300)}, {"type": "resource", "resource": resource}],
        ),
    )
    edit = {"path": path, "oldText": program, "newText": program.replace("state |", "state ^")}
    yield (
        8,
        _update(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "call_17",
                "title": "Edit steps.py",
                "kind": "edit",
                "status": "pending",
                "locations": [{"path": path, "line": 12}],
                "rawInput": {"path": "steps.py", "replace": ["|", "^"]},
                "content": [{"type": "diff", **edit}],
            }
        ),
    )
    output = {"type": "content", "content": {"type": "text", "text": text(400)}}
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "call_17", "status": "completed", "content": [output]}
    yield 8, _update(done)
    states = ("completed", "in_progress", "pending", "pending", "pending")
    entries = [{"content": text(60, 9 * i), "priority": "high", "status": state} for i, state in enumerate(states)]
    yield 2, _update({"sessionUpdate": "plan", "entries": entries})
    kinds = ("allow_once", "allow_always", "reject_once", "reject_always")
    call = {"toolCallId": "call_17", "title": "Edit steps.py", "kind": "edit", "status": "pending"}
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    yield 2, _request("session/request_permission", sessionId=SESSION, toolCall=call, options=options)
    for content in CHUNK_TEXTS:
        yield 12, chunk(content)


def _request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 4, "method": method, "params": params}


def _update(update: dict[str, Any], session: str = SESSION) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}
