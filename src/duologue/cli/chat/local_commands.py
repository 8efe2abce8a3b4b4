"""Input of a chat that is not a prompt: `:commands` of the chat, `/commands` of the agent, `@files`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from duologue.cli.console.summaries import used_text
from duologue.client.session import ClientSession
from duologue.conversation.session_setup import SessionInfo
from duologue.sanitize import escape_line
from duologue.usage.amounts import SessionUsage

LOCAL_COMMANDS = {
    "help": ("", "show this list"),
    "mode": ("[MODE]", "show the modes, or set one"),
    "model": ("[MODEL]", "show the models, or set one"),
    "set": ("[NAME VALUE]", "show the settings, or change one"),
    "commands": ("", "list the agent's own commands"),
    "new": ("", "open a new session, with the mode, settings and servers of the command line"),
    "sessions": ("", "list the agent's sessions of this directory"),
    "resume": ("[ID]", "choose a session to continue; a unique prefix of its id is enough"),
    "reload": ("", "start the agent again, and continue the session if the agent can"),
    "stderr": ("", "show or hide what the agent writes to stderr"),
    "wire": ("", "show or hide the messages of the connection"),
    "steer": ("TEXT", "send text into the running turn (or type it and press Ctrl-S), if the agent supports that"),
    "queue": ("", "list the prompts that wait until the turn has ended"),
    "edit": ("[N] [TEXT]", "edit a queued prompt, the last one without N; with TEXT, replace it"),
    "drop": ("[N]", "drop a queued prompt, the last one without N; `:drop all` drops them all"),
    "stop": ("[N]", "list the background tasks of the agent, or stop one"),
    "usage": ("", "show how full the context is, and the tokens and cost so far"),
    "cancel": ("", "cancel the turn (or press Ctrl-C), or work of the agent between turns"),
    "quit": ("", "exit (or press Ctrl-D)"),
}
"""Commands of the chat itself begin with a colon, so that they never collide with those of an agent."""

MOST_FILES = 200
"""Completions of files that are offered at once."""


def help_text() -> str:
    """Return the text of `:help`."""
    rows = [(f":{name} {argument}".rstrip(), description) for name, (argument, description) in LOCAL_COMMANDS.items()]
    width = max(len(usage) for usage, _ in rows)
    listed = "\n".join(f"  {usage:<{width}}  {description}" for usage, description in rows)
    others = {"/name": "a command of the agent", "@path": "attach a file", "\\": "at the end of a line: continue it"}
    return "\n".join([listed, *(f"  {usage:<{width}}  {meaning}" for usage, meaning in others.items())]) + "\n"


def completions(session: ClientSession | None, cwd: Path, before: str) -> Iterable[tuple[str, str, str]]:
    """Yield the completions of the text before the cursor, except those with invisible characters."""
    return (offer for offer in _offers(session, cwd, before) if offer[1].isprintable())


def _offers(session: ClientSession | None, cwd: Path, before: str) -> Iterable[tuple[str, str, str]]:
    word = before.rpartition(" ")[2]
    if word.startswith("@"):
        yield from _files(cwd, word)
    elif before.startswith(":"):
        yield from _local(session, before)
    elif before.startswith("/") and " " not in before and session is not None:
        for command in session.commands:
            if command.name.startswith(before[1:]):
                yield before, f"/{command.name}", escape_line(command.description)


def _local(session: ClientSession | None, before: str) -> Iterable[tuple[str, str, str]]:
    name, has_argument, argument = before[1:].partition(" ")
    if not has_argument:
        for each, (_, description) in LOCAL_COMMANDS.items():
            if each.startswith(name):
                yield before, f":{each}", description
    elif session is not None:
        for value, description in _values(session, name, argument):
            last = argument.rpartition(" ")[2]
            if value.startswith(last):
                yield last, value, escape_line(description)


def _values(session: ClientSession, name: str, argument: str) -> list[tuple[str, str]]:
    if name == "mode" and session.modes is not None:
        return [(mode.mode_id, mode.name) for mode in session.modes.available]
    if name == "model" and session.models is not None:
        return [(option.value, option.name) for option in session.models.choices]
    if name == "set":
        chosen, has_value, _ = argument.partition(" ")
        if not has_value:
            return [(setting.setting_id, setting.name) for setting in session.settings]
        setting = next((each for each in session.settings if each.setting_id == chosen), None)
        if setting is not None and setting.kind == "boolean":
            return [("true", ""), ("false", "")]
        return [] if setting is None else [(option.value, option.name) for option in setting.choices]
    return []


def _files(cwd: Path, word: str) -> Iterable[tuple[str, str, str]]:
    directory, _, start = word[1:].rpartition("/")
    try:
        entries = sorted((cwd / directory).iterdir())
    except OSError:
        return
    shown = [each for each in entries if each.name.startswith(start) and (start or not each.name.startswith("."))]
    for entry in shown[:MOST_FILES]:
        path = f"{directory}/{entry.name}" if directory else entry.name
        yield word, f"@{path}{'/' if entry.is_dir() else ''}", ""


def mentioned_files(text: str, cwd: Path) -> list[str]:
    """Return the existing files that a line mentions as `@path`."""
    words = re.findall(r"(?:^|\s)@(\S+)", text)
    paths = [word if (cwd / word).exists() else word.rstrip(".,;:!?)") for word in words]
    return list(dict.fromkeys(path for path in paths if path and (cwd / path).exists()))


def session_line(info: SessionInfo) -> str:
    """Return a session as a user recognizes it: its title, when it was last used, the beginning of its id."""
    parts = [info.title or "(no title)", (info.updated_at or "")[:16].replace("T", " "), info.session_id[:13]]
    return "  ".join(escape_line(part, 60) for part in parts if part)


def settings_text(session: ClientSession) -> str:
    """Return every setting with its value and its choices."""
    lines = [
        f"  {escape_line(setting.setting_id)} = {_value(setting.value)}"
        + (f"  ({', '.join(escape_line(option.value) for option in setting.choices)})" if setting.choices else "")
        for setting in session.settings
    ]
    return "\n".join(lines) + "\n" if lines else "this agent has no settings\n"


def usage_text(usage: SessionUsage) -> str:
    """Return how full the context is, and the tokens and cost of the session, as far as the agent reports them."""
    lines = [
        *([f"context: {usage.context_text}"] if usage.context_text else []),
        *([f"session: {used}"] if (used := used_text(usage)) else []),
        *(f"warning: {escape_line(warning)}" for warning in usage.warnings),
    ]
    return "".join(f"{line}\n" for line in lines) or "the agent has reported no usage so far\n"


def _value(value: str | bool | None) -> str:
    return str(value).lower() if isinstance(value, bool) else escape_line(value or "")
