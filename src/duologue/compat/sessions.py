"""Rules for sessions: loading, modes, config options, and empty answers."""

from __future__ import annotations

from duologue.compat.json_access import as_object, objects, rename, renaming, string
from duologue.compat.message import OpenMessage
from duologue.compat.rules import SESSION_OPENERS, Rule, body, each, params, results
from duologue.schema import v1
from duologue.schema.base import JsonObject


def read_load(message: OpenMessage) -> bool:
    """Add the directory that the session has, or the host's default; without one the reader rejects the request."""
    fields, known = message.fields, message.known
    cwd = known.cwds.pop(string(fields, "sessionId"), None) or known.default_cwd
    if cwd is None or "cwd" in fields or "sessionId" not in fields:
        return False
    fields["cwd"] = cwd
    fields.setdefault("mcpServers", [])
    return True


def _modes(message: OpenMessage) -> list[JsonObject]:
    return objects(as_object(message.fields.get("modes")).get("availableModes"))


def read_modes_of_agent(message: OpenMessage) -> bool:
    """Add the agent's modes to a session without modes; the first is the current one."""
    modes = message.known.modes
    if not modes or not isinstance(message.body, dict) or message.fields.get("modes") is not None:
        return False
    message.fields["modes"] = {"currentModeId": modes[0]["id"], "availableModes": modes}
    return True


def read_config_change(fields: JsonObject) -> bool:
    """Rename the option's id, and add the type that a boolean needs."""
    was_renamed = rename(fields, "option", "configId")
    if not isinstance(fields.get("value"), bool) or "type" in fields:
        return was_renamed
    fields["type"] = "boolean"
    return True


def write_config_change(fields: JsonObject) -> bool:
    """Rename the option's id, and remove the type of a boolean."""
    is_typed = fields.get("type") == "boolean"
    if is_typed:
        del fields["type"]
    return rename(fields, "configId", "option") or is_typed


def read_config_answer(message: OpenMessage) -> bool:
    """Replace an acknowledgement by the options last seen, with the value that the request set."""
    if message.body is not None and (not isinstance(message.body, dict) or "configOptions" in message.fields):
        return False
    config_id, value = message.request.change
    known = message.known.config_options.get(message.request.session_id, [])
    options = [{**option, "currentValue": value} if option.get("id") == config_id else option for option in known]
    message.body = {"configOptions": options, **message.fields}
    return True


def write_config_answer(message: OpenMessage) -> bool:
    """Replace the options by an acknowledgement."""
    if "configOptions" not in message.fields:
        return False
    message.body = None
    return True


def read_null(message: OpenMessage) -> bool:
    """Replace null by an empty object."""
    if message.body is not None:
        return False
    message.body = {}
    return True


def write_null(message: OpenMessage) -> bool:
    """Replace an empty object by null."""
    if message.body != {}:
        return False
    message.body = None
    return True


RULES = (
    Rule(
        "load-cwd",
        ("seed-003", "seed-004"),
        "`session/load` without `cwd`",
        "`cwd` is required: that of the session, or the host's default; else -32602",
        params(v1.SESSION_LOAD),
        read_load,
    ),
    Rule(
        "mode-names",
        ("seed-004",),
        "modes with `modeId` and `title`",
        "modes with `id` and `name`",
        results(*SESSION_OPENERS),
        each(_modes, renaming(modeId="id", title="name")),
    ),
    Rule(
        "config-change",
        ("seed-004",),
        "`session/set_config_option` with `option`; a bare boolean",
        '`configId`; a boolean comes with `type: "boolean"`',
        params(v1.SESSION_SET_CONFIG_OPTION),
        each(body, read_config_change),
        each(body, write_config_change),
    ),
    Rule(
        "config-answer",
        ("seed-004",),
        "answered with null",
        "answered with all options: those last seen, with the new value",
        results(v1.SESSION_SET_CONFIG_OPTION),
        read_config_answer,
        write_config_answer,
    ),
    Rule(
        "null-result",
        ("seed-001", "seed-004"),
        "null as the result of authenticate, load, set_mode, write_text_file, kill and release",
        "`{}`",
        results(
            v1.AUTHENTICATE,
            v1.SESSION_LOAD,
            v1.SESSION_SET_MODE,
            v1.FS_WRITE_TEXT_FILE,
            v1.TERMINAL_KILL,
            v1.TERMINAL_RELEASE,
        ),
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
