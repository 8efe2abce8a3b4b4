"""Facts that the schemas do not contain, or only in prose. They are checked against the schemas when they are used."""

from __future__ import annotations

from typing import Final

MEMBERS: Final = {
    ("SessionUpdate", "user_message_chunk"): "UserMessageChunk",
    ("SessionUpdate", "agent_message_chunk"): "AgentMessageChunk",
    ("SessionUpdate", "agent_thought_chunk"): "AgentThoughtChunk",
    ("SessionUpdate", "state_update"): "WorkStateUpdate",
    ("RequestPermissionOutcome", "cancelled"): "CancelledPermissionOutcome",
    ("CreateElicitationResponse", "decline"): "ElicitationDeclineAction",
    ("CreateElicitationResponse", "cancel"): "ElicitationCancelAction",
    ("SetSessionConfigOptionRequest", "id"): "SetSessionConfigOptionId",
    ("SetSessionConfigOptionRequest", "value_id"): "SetSessionConfigOptionId",
    ("SetSessionConfigOptionRequest", "boolean"): "SetSessionConfigOptionBoolean",
    ("MessageMcpResponse", "Result"): "MessageMcpResult",
    ("MessageMcpResponse", "Error"): "MessageMcpError",
    ("DiffChange", "add"): "DiffAdd",
    ("DiffChange", "delete"): "DiffDelete",
    ("DiffChange", "modify"): "DiffModify",
    ("DiffChange", "move"): "DiffMove",
    ("DiffChange", "copy"): "DiffCopy",
}
"""Class names of union members that have no definition of their own, or share one."""

UNTAGGED_NAMES: Final = {"ToolCallUpdate": "PermissionToolCall"}
"""Definitions used both as a member of a tagged union and alone: the class without the tag needs another name, or one
would be encoded where the other is expected."""

MERGED: Final = {"StateUpdate": "WorkState"}
"""Unions turned into one class. A v2 session update carries two tags (`sessionUpdate` and `state`); msgspec has one."""

UNKNOWN_TAGS: Final = {
    "McpServer": ("McpServerStdio", "command"),
    "AuthMethod": ("AuthMethodAgent", None),
    "SetSessionConfigOptionRequest": ("SetSessionConfigOptionId", None),
}
"""Half-tagged unions of v1 that decode an unknown tag as the member without one; `command` distinguishes a stdio server
from an unknown kind of server."""

ALL = "*"
PATCHES: Final = {
    "v1": {
        "SessionInfoUpdate": {"title", "updatedAt"},
        "CompactionUpdate": {ALL},
        "SubagentUpdate": {ALL},
        "SessionMessage": {ALL},
        "McpError": {"data"},
    },
    "v2": {
        "ToolCallUpdate": {ALL},
        "UserMessage": {ALL},
        "AgentMessage": {ALL},
        "AgentThought": {ALL},
        "TerminalUpdate": {ALL},
        "SessionInfoUpdate": {ALL},
        "CompactionUpdate": {ALL},
        "SubagentUpdate": {ALL},
        "SessionMessage": {ALL},
        "UsageUpdate": {"cost"},
        "McpError": {"data"},
    },
}
"""Optional fields where null and absent differ: null clears, absent keeps (in McpError: both are passed on)."""

IN_ORDER: Final = {"session/prompt", "session/new", "session/load", "session/resume", "session/fork", "session/close"}
OPENS_SESSION: Final = {"session/new", "session/fork"}
ENDS_SESSION: Final = {"session/close", "session/delete"}
URGENT: Final = {"session/cancel", "$/cancel_request"}
