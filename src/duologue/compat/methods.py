"""The method names that the rules speak of, and who handles each."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = [
    "AUTHENTICATE",
    "FS_READ_TEXT_FILE",
    "FS_WRITE_TEXT_FILE",
    "HANDLED_BY_CLIENT",
    "INITIALIZE",
    "SESSION_FORK",
    "SESSION_LOAD",
    "SESSION_NEW",
    "SESSION_OPENERS",
    "SESSION_PROMPT",
    "SESSION_REQUEST_PERMISSION",
    "SESSION_RESUME",
    "SESSION_SET_CONFIG_OPTION",
    "SESSION_SET_MODE",
    "SESSION_SET_MODEL",
    "SESSION_UPDATE",
    "TERMINAL_CREATE",
    "TERMINAL_KILL",
    "TERMINAL_OUTPUT",
    "TERMINAL_RELEASE",
    "TERMINAL_WAIT_FOR_EXIT",
    "Side",
]

Side: TypeAlias = Literal["agent", "client"]

INITIALIZE = "initialize"
AUTHENTICATE = "authenticate"
SESSION_NEW = "session/new"
SESSION_LOAD = "session/load"
SESSION_RESUME = "session/resume"
SESSION_FORK = "session/fork"
SESSION_PROMPT = "session/prompt"
SESSION_SET_MODE = "session/set_mode"
SESSION_SET_MODEL = "session/set_model"
SESSION_SET_CONFIG_OPTION = "session/set_config_option"
SESSION_UPDATE = "session/update"
SESSION_REQUEST_PERMISSION = "session/request_permission"
FS_READ_TEXT_FILE = "fs/read_text_file"
FS_WRITE_TEXT_FILE = "fs/write_text_file"
TERMINAL_CREATE = "terminal/create"
TERMINAL_OUTPUT = "terminal/output"
TERMINAL_WAIT_FOR_EXIT = "terminal/wait_for_exit"
TERMINAL_KILL = "terminal/kill"
TERMINAL_RELEASE = "terminal/release"

SESSION_OPENERS = (SESSION_NEW, SESSION_LOAD, SESSION_RESUME, SESSION_FORK)

HANDLED_BY_CLIENT = frozenset(
    {
        SESSION_UPDATE,
        SESSION_REQUEST_PERMISSION,
        FS_READ_TEXT_FILE,
        FS_WRITE_TEXT_FILE,
        TERMINAL_CREATE,
        TERMINAL_OUTPUT,
        TERMINAL_WAIT_FOR_EXIT,
        TERMINAL_KILL,
        TERMINAL_RELEASE,
    }
)
"""All others are handled by the agent."""
