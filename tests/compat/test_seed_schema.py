"""The schemas of seeds 000 and 001: every type with every member that it had in October 2025, and every method."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duologue.schema import legacy, v1
from duologue.schema.base import Method, Notification
from duologue.schema.codec import Defaulted, decode, encode
from tests.client.scripted_agent import Json

META: Json = {"_meta": {"zed.dev/debugMode": True}}
NOTES: Json = {"audience": ["user"], "lastModified": "2025-10-01T00:00:00Z", "priority": 0.5, **META}
TEXT: Json = {"type": "text", "text": "t", "annotations": NOTES, **META}
IMAGE: Json = {
    "type": "image",
    "data": "aGk=",
    "mimeType": "image/png",
    "uri": "file:///i",
    "annotations": NOTES,
    **META,
}
AUDIO: Json = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav", "annotations": NOTES, **META}
SOURCE: Json = {"uri": "file:///a", "text": "x", "mimeType": "text/plain", **META}
BLOB: Json = {"uri": "file:///a", "blob": "aGk=", "mimeType": "image/png", **META}
LINK: Json = {
    "type": "resource_link",
    "name": "l",
    "uri": "file:///l",
    "description": "d",
    "mimeType": "text/plain",
    "size": 3,
    "title": "L",
    "annotations": NOTES,
    **META,
}
BLOCKS: list[Json] = [
    *(TEXT, IMAGE, AUDIO, LINK),
    *({"type": "resource", "resource": each, "annotations": NOTES, **META} for each in (SOURCE, BLOB)),
]
PAIR: Json = {"name": "N", "value": "v", **META}
SERVERS: list[Json] = [
    {"name": "f", "command": "/bin/f", "args": ["-v"], "env": [PAIR]},
    {"type": "http", "name": "h", "url": "https://h", "headers": [PAIR]},
    {"type": "sse", "name": "s", "url": "https://s", "headers": [PAIR]},
]
MODES: Json = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask", "description": "d", **META}],
    **META,
}
MODELS: Json = {
    "currentModelId": "m",
    "availableModels": [{"modelId": "m", "name": "M", "description": "d", **META}],
    **META,
}
CONTENT: list[Json] = [
    *({"type": "content", "content": block} for block in BLOCKS),
    {"type": "diff", "path": "/a", "oldText": "old", "newText": "new", **META},
    {"type": "terminal", "terminalId": "t"},
]
CALL: Json = {
    "toolCallId": "c",
    "title": "T",
    "kind": "edit",
    "status": "in_progress",
    "content": CONTENT,
    "locations": [{"path": "/a", "line": 3, **META}],
    "rawInput": {"i": 1},
    "rawOutput": {"o": 1},
    **META,
}
ENTRY: Json = {"content": "c", "priority": "high", "status": "completed", **META}
OPTION: Json = {"optionId": "o", "name": "O", "kind": "allow_once", **META}
COMMAND: Json = {"name": "web", "description": "d", "input": {"hint": "query"}, **META}
UPDATES: list[Json] = [
    *(
        {"sessionUpdate": f"{kind}_chunk", "content": TEXT}
        for kind in ("user_message", "agent_message", "agent_thought")
    ),
    {"sessionUpdate": "tool_call", **CALL},
    {"sessionUpdate": "tool_call_update", **CALL},
    {"sessionUpdate": "plan", "entries": [ENTRY], **META},
    {"sessionUpdate": "available_commands_update", "availableCommands": [COMMAND]},
    {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
]
SESSION: Json = {"sessionId": "s", **META}
TERMINAL: Json = {**SESSION, "terminalId": "t"}
EXIT: Json = {"exitCode": 3, "signal": "SIGTERM", **META}
AGENT: Json = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True, **META},
    "mcpCapabilities": {"http": True, "sse": True, **META},
    **META,
}
CLIENT: Json = {"fs": {"readTextFile": True, "writeTextFile": True, **META}, "terminal": True, **META}

EXAMPLES: list[tuple[Any, Json]] = [
    (v1.InitializeRequest, {"protocolVersion": 1, "clientCapabilities": CLIENT, **META}),
    (
        legacy.InitializeResponse,
        {
            "protocolVersion": 1,
            "agentCapabilities": AGENT,
            "authMethods": [{"id": "a", "name": "A", "description": "d", **META}],
            **META,
        },
    ),
    (v1.AuthenticateRequest, {"methodId": "a", **META}),
    (v1.AuthenticateResponse, META),
    (v1.NewSessionRequest, {"cwd": "/", "mcpServers": SERVERS, **META}),
    (legacy.NewSessionResponse, {**SESSION, "modes": MODES, "models": MODELS}),
    (v1.LoadSessionRequest, {**SESSION, "cwd": "/", "mcpServers": SERVERS}),
    (legacy.LoadSessionResponse, {"modes": MODES, "models": MODELS, **META}),
    *((v1.PromptRequest, {**SESSION, "prompt": [block]}) for block in BLOCKS),
    *(
        (v1.PromptResponse, {"stopReason": reason, **META})
        for reason in ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
    ),
    (v1.CancelNotification, SESSION),
    (v1.SetSessionModeRequest, {**SESSION, "modeId": "code"}),
    (v1.SetSessionModeResponse, META),
    (legacy.SetSessionModelRequest, {**SESSION, "modelId": "m"}),
    (legacy.SetSessionModelResponse, META),
    (v1.ReadTextFileRequest, {**SESSION, "path": "/a", "line": 2, "limit": 3}),
    (v1.ReadTextFileResponse, {"content": "text", **META}),
    (v1.WriteTextFileRequest, {**SESSION, "path": "/a", "content": "text"}),
    (v1.WriteTextFileResponse, META),
    *(
        (v1.RequestPermissionRequest, {**SESSION, "toolCall": CALL, "options": [{**OPTION, "kind": kind}]})
        for kind in ("allow_once", "allow_always", "reject_once", "reject_always")
    ),
    (v1.RequestPermissionRequest, {**SESSION, "toolCall": {"toolCallId": "c"}, "options": [OPTION]}),
    (v1.RequestPermissionResponse, {"outcome": {"outcome": "selected", "optionId": "o"}, **META}),
    (v1.RequestPermissionResponse, {"outcome": {"outcome": "cancelled"}, **META}),
    *((v1.SessionNotification, {**SESSION, "update": update}) for update in UPDATES),
    *(
        (v1.SessionNotification, {"sessionId": "s", "update": {"sessionUpdate": "tool_call", **CALL, "kind": kind}})
        for kind in ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode")
    ),
    *(
        (v1.SessionNotification, {"sessionId": "s", "update": {**UPDATES[4], "status": status}})
        for status in ("pending", "in_progress", "completed", "failed")
    ),
    *(
        (v1.Plan, {**UPDATES[5], "entries": [{**ENTRY, "priority": priority, "status": status}]})
        for priority in ("high", "medium", "low")
        for status in ("pending", "in_progress", "completed")
    ),
    (
        v1.CreateTerminalRequest,
        {**SESSION, "command": "npm", "args": ["test"], "env": [PAIR], "cwd": "/", "outputByteLimit": 1048576},
    ),
    (v1.CreateTerminalResponse, {"terminalId": "t", **META}),
    (v1.TerminalOutputRequest, TERMINAL),
    (v1.TerminalOutputResponse, {"output": "o", "truncated": True, "exitStatus": EXIT, **META}),
    (v1.WaitForTerminalExitRequest, TERMINAL),
    (v1.WaitForTerminalExitResponse, EXIT),
    (v1.KillTerminalRequest, TERMINAL),
    (v1.KillTerminalResponse, META),
    (v1.ReleaseTerminalRequest, TERMINAL),
    (v1.ReleaseTerminalResponse, META),
]

METHODS = {
    "agent": {
        *("initialize", "authenticate", "session/new", "session/load", "session/prompt", "session/set_mode"),
        *("session/set_model", "session/cancel"),
    },
    "client": {
        *("session/request_permission", "session/update", "fs/read_text_file", "fs/write_text_file"),
        *("terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"),
    },
}


@pytest.mark.parametrize(("type_", "value"), EXAMPLES, ids=lambda each: getattr(each, "__name__", ""))
def test_every_type_of_seed_001_is_read_and_written_with_every_member_it_had(type_: Any, value: Json) -> None:
    mended: list[Defaulted] = []
    written = json.loads(encode(decode(type_, json.dumps(value).encode(), mended.append)))

    assert mended == []
    assert written == value


@pytest.mark.parametrize("side", METHODS)
def test_every_method_of_seeds_000_to_002_has_a_constant(side: str) -> None:
    constants = [each for module in (v1, legacy) for each in vars(module).values()]
    ours = {each.name for each in constants if isinstance(each, Method | Notification) and each.side == side}

    assert METHODS[side] - ours == set()
