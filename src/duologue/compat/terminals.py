"""The client's files and terminals."""

from __future__ import annotations

from signal import Signals

from duologue.compat.json_access import KEPT_UNDER, JsonValue, as_object, bring_back, keep, rename, took_place
from duologue.compat.message import OpenMessage
from duologue.compat.methods import FS_READ_TEXT_FILE, TERMINAL_CREATE, TERMINAL_OUTPUT, TERMINAL_WAIT_FOR_EXIT
from duologue.compat.rules import Rule, params, results
from duologue.compat.servers import list_pairs, map_pairs

__all__ = ["RULES"]

KILLED = 128
"""What shells add to the number of the signal that ended a process."""


def read_lines(letter: OpenMessage) -> bool:
    """Unread, these names would silently fetch the whole file."""
    fields = letter.fields
    return took_place([rename(fields, "startLine", "line"), rename(fields, "lineLimit", "limit")])


def write_lines(letter: OpenMessage) -> bool:
    """The way back."""
    fields = letter.fields
    return took_place([rename(fields, "line", "startLine"), rename(fields, "limit", "lineLimit")])


def read_env(letter: OpenMessage) -> bool:
    """An object of variables."""
    return list_pairs(letter.fields, "env")


def write_env(letter: OpenMessage) -> bool:
    """A list of variables."""
    return map_pairs(letter.fields, "env")


def read_output(letter: OpenMessage) -> bool:
    """A null exit code means that the process still runs, which today is no exit status at all."""
    fields = letter.fields
    if "output" not in fields or "exitStatus" in fields or ("truncated" in fields and "exitCode" not in fields):
        return False
    fields.setdefault("truncated", False)
    exit_code, signal = fields.pop("exitCode", None), fields.pop("signal", None)
    if exit_code is not None:
        fields["exitStatus"] = {"exitCode": exit_code} | ({} if signal is None else {"signal": signal})
    return True


def write_output(letter: OpenMessage) -> bool:
    """The exit code alone; one that a signal denied must not read as still running."""
    fields = letter.fields
    if "output" not in fields or "exitCode" in fields:
        return False
    status: JsonValue = fields.pop("exitStatus", None)
    exit_code, signal = as_object(status).get("exitCode"), as_object(status).get("signal")
    fields["exitCode"] = None if status is None else _exit_code(exit_code, signal)
    if isinstance(signal, str):
        fields["signal"] = signal
    return True


def read_timeout(letter: OpenMessage) -> bool:
    """Waits have no end of their own today; our client finds this one in `_meta`."""
    fields = letter.fields
    timeout = fields.pop("timeout", None)
    if timeout is not None:
        keep(fields, timeout=timeout)
    return timeout is not None


def read_wait(letter: OpenMessage) -> bool:
    """Where the agent is known to speak the seed, it expects the output with the end of the command."""
    kept = as_object(as_object(letter.fields.get("_meta")).get(KEPT_UNDER))
    if letter.known.dialect != KEPT_UNDER or "output" in kept:
        return False
    keep(letter.fields, output=True)
    return True


def read_exit(letter: OpenMessage) -> bool:
    """Output is fetched with `terminal/output`; what came with the end of the command is kept."""
    if "output" not in letter.fields:
        return False
    keep(letter.fields, output=letter.fields.pop("output"))
    return True


def write_exit(letter: OpenMessage) -> bool:
    """The seed knows exit codes only; none means that the command still runs when the time is up."""
    fields = letter.fields
    kept = bring_back(fields)
    if "output" in kept:
        fields.setdefault("exitCode", None)
        fields["output"] = kept["output"]
    if fields.get("exitCode") is None and isinstance(fields.get("signal"), str):
        fields["exitCode"] = _exit_code(None, fields["signal"])
        return True
    return "output" in kept


def _exit_code(exit_code: JsonValue, signal: JsonValue) -> JsonValue:
    """Never null and, unless it was so, never zero: what ended otherwise did not succeed."""
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
        params(FS_READ_TEXT_FILE),
        read_lines,
        write_lines,
    ),
    Rule(
        "terminal-env",
        ("seed-004",),
        "`terminal/create` with `env`: an object",
        "`env`: a list of `name` and `value`",
        params(TERMINAL_CREATE),
        read_env,
        write_env,
    ),
    Rule(
        "terminal-output",
        ("seed-004",),
        "`terminal/output` answers `output` and `exitCode`",
        "`output`, `truncated` and, once ended, `exitStatus`",
        results(TERMINAL_OUTPUT),
        read_output,
        write_output,
    ),
    Rule(
        "wait-timeout",
        ("seed-004",),
        "`terminal/wait_for_exit` with `timeout`",
        '`_meta["seed-004"].timeout`: the wait ends then, as our client answers it',
        params(TERMINAL_WAIT_FOR_EXIT),
        read_timeout,
    ),
    Rule(
        "wait-for-output",
        ("seed-004",),
        "`terminal/wait_for_exit`, from an agent whose dialect is named",
        '`_meta["seed-004"].output: true`: our client answers with the output as well',
        params(TERMINAL_WAIT_FOR_EXIT),
        read_wait,
    ),
    Rule(
        "wait-output",
        ("seed-004",),
        "`terminal/wait_for_exit` answers `output` and `exitCode`",
        '`exitCode` and `signal`, the output in `_meta["seed-004"]`; a signal is written as a shell\'s exit code',
        results(TERMINAL_WAIT_FOR_EXIT),
        read_exit,
        write_exit,
    ),
)
