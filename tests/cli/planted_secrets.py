"""Secrets in every position and shape that the documentation promises to remove, as lines of a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from tests.recording.canaries import Canaries

Message: TypeAlias = dict[str, Any]
OWN_PATTERN = r"own-canary\d+"

SHAPES: list[Callable[[str], str]] = [
    lambda secret: f"TOKEN={secret}",
    lambda secret: f'set password = "{secret}" now',
    lambda secret: f'{{"apiKey": "{secret}"}}',
    lambda secret: f"api_key: '{secret}'",
    lambda secret: f"Authorization: Bearer {secret}",
    lambda secret: f"Basic {secret}",
    lambda secret: f"the key sk-{secret} works",
    lambda secret: f"ghp_{secret}",
    lambda secret: f"curl https://example.com/x?a=b&token={secret}",
    lambda secret: f"postgres://me:{secret}@db/x",
    lambda secret: f"tool --api-key {secret} --verbose",
    lambda secret: f"-----BEGIN RSA PRIVATE KEY-----\n{secret}\n-----END RSA PRIVATE KEY-----",
    lambda secret: f"of the user own-{secret}",
]
"""How a secret looks in a text."""


def _update(**update: Any) -> Message:
    return {"method": "session/update", "params": {"sessionId": "s", "update": update}}


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


TEXTS: list[tuple[str, Callable[[str], Message]]] = [
    ("to_agent", lambda text: {"id": 9, "method": "session/prompt", "params": {
        "sessionId": "x", "prompt": [_text(text)]}}),
    ("to_agent", lambda text: {"id": "r", "result": {"content": text}}),
    ("to_agent", lambda text: {"id": "r", "error": {"code": -1, "message": text, "data": {"detail": [text]}}}),
    ("to_client", lambda text: _update(sessionUpdate="agent_message_chunk", content=_text(text))),
    ("to_client", lambda text: _update(sessionUpdate="agent_thought_chunk", content=_text(text))),
    ("to_client", lambda text: _update(sessionUpdate="tool_call", toolCallId="t", title=text, kind="execute")),
    ("to_client", lambda text: _update(sessionUpdate="tool_call_update", toolCallId="t", rawInput={"command": text})),
    ("to_client", lambda text: _update(sessionUpdate="tool_call_update", toolCallId="t", rawOutput={"stdout": text})),
    ("to_client", lambda text: _update(sessionUpdate="tool_call_update", toolCallId="t",
                                       content=[{"type": "content", "content": _text(text)}])),
    ("to_client", lambda text: _update(sessionUpdate="tool_call_update", toolCallId="t",
                                       content=[{"type": "diff", "path": "/x", "oldText": text, "newText": text}])),
    ("to_client", lambda text: _update(sessionUpdate="plan",
                                       entries=[{"content": text, "priority": "low", "status": "pending"}])),
    ("to_client", lambda text: _update(sessionUpdate="session_info_update", title=text)),
    ("to_client", lambda text: {"method": "_vendor/note", "params": {"deep": [{"er": text}]}}),
    ("to_client", lambda text: {"id": 900, "error": {"code": -1, "message": text, "data": text}}),
]  # fmt: skip
"""Messages that contain a text of any shape."""

MEMBERS: list[tuple[str, Callable[[str], Message]]] = [
    ("to_agent", lambda secret: {"id": 8, "method": "authenticate", "params": {"methodId": "m", "code": secret}}),
    ("to_agent", lambda secret: {"id": 8, "method": "auth/login", "params": {"methodId": "m", "more": [secret]}}),
    ("to_agent", lambda secret: {"id": 8, "method": "session/new", "params": {"cwd": "/", "mcpServers": [
        {"name": "a", "command": "b", "args": ["--token", secret], "env": [{"name": "X", "value": secret}]}]}}),
    ("to_agent", lambda secret: {"id": 8, "method": "session/new", "params": {"cwd": "/", "mcpServers": [
        {"name": "a", "type": "http", "url": f"http://x/?key={secret}",
         "headers": [{"name": "X", "value": secret}]}]}}),
    ("to_agent", lambda secret: {"id": 8, "method": "_x", "params": {
        "headers": {"Cookie": secret}, "env": {"A": secret}}}),
    ("to_client", lambda secret: {"id": "t", "method": "terminal/create", "params": {
        "sessionId": "s", "command": "true", "args": ["--password", secret], "env": [{"name": "X", "value": secret}]}}),
    ("to_client", lambda secret: {"method": "_x", "params": {"credentials": {"user": secret, "keys": [secret]}}}),
    ("to_client", lambda secret: {"method": "_x", "params": {"refresh_token": secret, "clientSecret": secret}}),
    ("to_client", lambda secret: {"id": 900, "result": {"_meta": {"privateKey": {"pem": secret}}}}),
]  # fmt: skip
"""Positions and names that say secret."""

BROKEN: list[Callable[[str], str]] = [
    lambda secret: f'{{"jsonrpc":"2.0","method":"m","params":{{"a":"{secret}"',
    lambda secret: f'{{"jsonrpc":"2.0","params":["{secret}", nonsense]}}',
    lambda secret: f"[ERROR] login failed: token={secret}",
    lambda secret: f'["{secret}", {{"env":',
]
"""Lines that are not JSON."""


def lines(canaries: Canaries, direction: str, environment: list[str], per_position: int = 5) -> Iterator[str]:
    """Yield the lines of one direction, with a new secret in each.

    Args:
        canaries: Makes the secrets.
        direction: Who receives the lines.
        environment: Secrets that are values of environment variables.
        per_position: Secrets for each position.
    """
    for receiver, make in TEXTS:
        if receiver == direction:
            for shape in SHAPES:
                yield _line(make(shape(canaries())))
                yield _line(make(f"before\n{shape(canaries())}\nafter"), is_ascii=False)
                yield _line(make(f"über `{shape(canaries())}` …"), is_ascii=False)
            for secret in environment:
                yield _line(make(f"it is {secret}, in plain words"))
    for receiver, make in MEMBERS:
        if receiver == direction:
            for _ in range(per_position):
                yield _line(make(canaries()))
    for make_broken in BROKEN:
        for _ in range(per_position):
            yield make_broken(canaries())


def escaped(canaries: Canaries) -> str:
    """Return a message whose secret is hidden by escapes."""
    text = "".join(f"\\u{ord(letter):04x}" for letter in f"TOKEN={canaries()}")
    return f'{{"jsonrpc":"2.0","method":"_x","params":{{"text":"{text}"}}}}'


def _line(message: Message, *, is_ascii: bool = True) -> str:
    return json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=is_ascii)
