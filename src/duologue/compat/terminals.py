"""Rules for the client's files and terminals."""

from __future__ import annotations

from signal import Signals

from duologue.compat.json_access import as_object, keep_in_meta, renaming, take_from_meta
from duologue.compat.message import OpenMessage
from duologue.compat.rules import Rule, body, each, params, results
from duologue.compat.servers import list_pairs, map_pairs
from duologue.schema import v1
from duologue.schema.base import JsonObject, JsonValue
from duologue.schema.legacy import DIALECT_KEY

KILLED = 128
"""Added by shells to the number of the signal that ended a process."""


def read_output(fields: JsonObject) -> bool:
    """Replace the exit code by an exit status; null means that the process still runs, which has none today."""
    if "output" not in fields or "exitStatus" in fields or ("truncated" in fields and "exitCode" not in fields):
        return False
    fields.setdefault("truncated", False)
    exit_code, signal = fields.pop("exitCode", None), fields.pop("signal", None)
    if exit_code is not None:
        fields["exitStatus"] = {"exitCode": exit_code} | ({} if signal is None else {"signal": signal})
    return True


def write_output(fields: JsonObject) -> bool:
    """Write the exit code alone; the end by a signal must not read as still running."""
    if "output" not in fields or "exitCode" in fields:
        return False
    status: JsonValue = fields.pop("exitStatus", None)
    exit_code, signal = as_object(status).get("exitCode"), as_object(status).get("signal")
    fields["exitCode"] = None if status is None else _exit_code(exit_code, signal)
    if isinstance(signal, str):
        fields["signal"] = signal
    return True


def read_timeout(fields: JsonObject) -> bool:
    """Move the timeout, which waits do not have today, to `_meta`, where our client finds it."""
    timeout = fields.pop("timeout", None)
    if timeout is not None:
        keep_in_meta(fields, timeout=timeout)
    return timeout is not None


def read_wait(message: OpenMessage) -> bool:
    """Request the output with the end of the command, which an agent of the seed expects."""
    stored = as_object(as_object(message.fields.get("_meta")).get(DIALECT_KEY))
    if message.known.dialect != DIALECT_KEY or "output" in stored:
        return False
    keep_in_meta(message.fields, output=True)
    return True


def read_exit(fields: JsonObject) -> bool:
    """Move the output, which is fetched with `terminal/output` today, to `_meta`."""
    if "output" not in fields:
        return False
    keep_in_meta(fields, output=fields.pop("output"))
    return True


def write_exit(fields: JsonObject) -> bool:
    """Write the exit code, and the output from `_meta`; null means that the command still ran at the timeout."""
    stored = take_from_meta(fields)
    if "output" in stored:
        fields.setdefault("exitCode", None)
        fields["output"] = stored["output"]
    if fields.get("exitCode") is None and isinstance(fields.get("signal"), str):
        fields["exitCode"] = _exit_code(None, fields["signal"])
        return True
    return "output" in stored


def _exit_code(exit_code: JsonValue, signal: JsonValue) -> JsonValue:
    """Return the exit code, or the shell's code for a signal; never zero for a command that did not succeed."""
    if exit_code is not None:
        return exit_code
    name = f"SIG{signal.upper().removeprefix('SIG')}" if isinstance(signal, str) else ""
    return KILLED + Signals.__members__.get(name, 0)


RULES = (
    Rule(
        "read-lines",
        ("seed-004",),
        "`fs/read_text_file` with `startLine` and `lineLimit`",
        "`line` and `limit`",
        params(v1.FS_READ_TEXT_FILE),
        # Under the other names they would be ignored, and the whole file fetched.
        each(body, renaming(startLine="line", lineLimit="limit")),
        each(body, renaming(line="startLine", limit="lineLimit")),
    ),
    Rule(
        "terminal-env",
        ("seed-004",),
        "`terminal/create` with `env`: an object",
        "`env`: a list of `name` and `value`",
        params(v1.TERMINAL_CREATE),
        each(body, list_pairs("env")),
        each(body, map_pairs("env")),
    ),
    Rule(
        "terminal-output",
        ("seed-004",),
        "`terminal/output` answers `output` and `exitCode`",
        "`output`, `truncated` and, once ended, `exitStatus`",
        results(v1.TERMINAL_OUTPUT),
        each(body, read_output),
        each(body, write_output),
    ),
    Rule(
        "wait-timeout",
        ("seed-004",),
        "`terminal/wait_for_exit` with `timeout`",
        '`_meta["seed-004"].timeout`: the wait ends then, as our client answers it',
        params(v1.TERMINAL_WAIT_FOR_EXIT),
        each(body, read_timeout),
    ),
    Rule(
        "wait-for-output",
        ("seed-004",),
        "`terminal/wait_for_exit`, from an agent whose dialect is named",
        '`_meta["seed-004"].output: true`: our client answers with the output as well',
        params(v1.TERMINAL_WAIT_FOR_EXIT),
        read_wait,
    ),
    Rule(
        "wait-output",
        ("seed-004",),
        "`terminal/wait_for_exit` answers `output` and `exitCode`",
        '`exitCode` and `signal`, the output in `_meta["seed-004"]`; a signal is written as a shell\'s exit code',
        results(v1.TERMINAL_WAIT_FOR_EXIT),
        each(body, read_exit),
        each(body, write_exit),
    ),
)
