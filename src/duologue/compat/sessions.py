"""Sessions: loading them, their modes, their config options, and answers that say nothing."""

from __future__ import annotations

from duologue.compat.json_access import as_object, objects, rename, took_place, word
from duologue.compat.message import OpenMessage
from duologue.compat.methods import (
    AUTHENTICATE,
    FS_WRITE_TEXT_FILE,
    SESSION_LOAD,
    SESSION_OPENERS,
    SESSION_SET_CONFIG_OPTION,
    SESSION_SET_MODE,
    TERMINAL_KILL,
    TERMINAL_RELEASE,
)
from duologue.compat.rules import Rule, params, results

__all__ = ["RULES"]


def read_load(letter: OpenMessage) -> bool:
    """A directory cannot be invented: the one that the session has, or the host's default; else the reader refuses."""
    fields, known = letter.fields, letter.known
    cwd = known.cwds.take(word(fields, "sessionId")) or known.default_cwd
    if cwd is None or "cwd" in fields or "sessionId" not in fields:
        return False
    fields["cwd"] = cwd
    fields.setdefault("mcpServers", [])
    return True


def read_mode_names(letter: OpenMessage) -> bool:
    """Modes of a session under their names in capabilities."""
    modes = objects(as_object(letter.fields.get("modes")).get("availableModes"))
    return took_place(rename(mode, old, new) for mode in modes for old, new in (("modeId", "id"), ("title", "name")))


def read_modes_of_agent(letter: OpenMessage) -> bool:
    """A session without modes of its own has those of its agent, and begins in the first."""
    modes = letter.known.modes
    if not modes or not isinstance(letter.body, dict) or letter.fields.get("modes") is not None:
        return False
    letter.fields["modes"] = {"currentModeId": modes[0]["id"], "availableModes": modes}
    return True


def read_config_change(letter: OpenMessage) -> bool:
    """The option's name, and the type that a boolean needs."""
    fields = letter.fields
    was_renamed = rename(fields, "option", "configId")
    if not isinstance(fields.get("value"), bool) or "type" in fields:
        return was_renamed
    fields["type"] = "boolean"
    return True


def write_config_change(letter: OpenMessage) -> bool:
    """The way back."""
    fields = letter.fields
    is_typed = fields.get("type") == "boolean"
    if is_typed:
        del fields["type"]
    return rename(fields, "configId", "option") or is_typed


def read_config_answer(letter: OpenMessage) -> bool:
    """A bare acknowledgement becomes the list last seen, with the value that was asked for."""
    if letter.body is not None and (not isinstance(letter.body, dict) or "configOptions" in letter.fields):
        return False
    config_id, value = letter.request.change
    known = letter.known.config_options.get(letter.request.session_id, [])
    options = [{**option, "currentValue": value} if option.get("id") == config_id else option for option in known]
    letter.body = {"configOptions": options, **letter.fields}
    return True


def write_config_answer(letter: OpenMessage) -> bool:
    """The seed acknowledges and lists nothing."""
    if "configOptions" not in letter.fields:
        return False
    letter.body = None
    return True


def read_null(letter: OpenMessage) -> bool:
    """Null where an object is due."""
    if letter.body is not None:
        return False
    letter.body = {}
    return True


def write_null(letter: OpenMessage) -> bool:
    """An object that says nothing."""
    if letter.body != {}:
        return False
    letter.body = None
    return True


RULES = (
    Rule(
        "load-cwd",
        ("seed-003", "seed-004"),
        "`session/load` without `cwd`",
        "`cwd` is required: that of the session, or the host's default; else -32602",
        params(SESSION_LOAD),
        read_load,
    ),
    Rule(
        "mode-names",
        ("seed-004",),
        "modes with `modeId` and `title`",
        "modes with `id` and `name`",
        results(*SESSION_OPENERS),
        read_mode_names,
    ),
    Rule(
        "config-change",
        ("seed-004",),
        "`session/set_config_option` with `option`; a bare boolean",
        '`configId`; a boolean comes with `type: "boolean"`',
        params(SESSION_SET_CONFIG_OPTION),
        read_config_change,
        write_config_change,
    ),
    Rule(
        "config-answer",
        ("seed-004",),
        "answered with null",
        "answered with all options: those last seen, with the new value",
        results(SESSION_SET_CONFIG_OPTION),
        read_config_answer,
        write_config_answer,
    ),
    Rule(
        "null-result",
        ("seed-001", "seed-004"),
        "null as the result of authenticate, load, set_mode, write_text_file, kill and release",
        "`{}`",
        results(AUTHENTICATE, SESSION_LOAD, SESSION_SET_MODE, FS_WRITE_TEXT_FILE, TERMINAL_KILL, TERMINAL_RELEASE),
        read_null,
        write_null,
    ),
    Rule(
        "modes-of-agent",
        ("seed-004",),
        "no `modes` in the answer that opens a session",
        "`modes`: those of `sessionModes`, the first one as the current mode",
        results(*SESSION_OPENERS),
        read_modes_of_agent,
    ),
)
