"""The client's files and terminals."""

from __future__ import annotations

from signal import Signals

from duologue.compat.letters import Letter
from duologue.compat.methods import FS_READ_TEXT_FILE, TERMINAL_CREATE, TERMINAL_OUTPUT, TERMINAL_WAIT_FOR_EXIT
from duologue.compat.rules import Rule, params, results
from duologue.compat.servers import list_pairs, map_pairs
from duologue.compat.values import JsonValue, as_object, rename, took_place

__all__ = ["RULES"]

KILLED = 128
"""What shells add to the number of the signal that ended a process."""


def read_lines(letter: Letter) -> bool:
    """Unread, these names would silently fetch the whole file."""
    fields = letter.fields
    return took_place([rename(fields, "startLine", "line"), rename(fields, "lineLimit", "limit")])


def write_lines(letter: Letter) -> bool:
    """The way back."""
    fields = letter.fields
    return took_place([rename(fields, "line", "startLine"), rename(fields, "limit", "lineLimit")])


def read_env(letter: Letter) -> bool:
    """An object of variables."""
    return list_pairs(letter.fields, "env")


def write_env(letter: Letter) -> bool:
    """A list of variables."""
    return map_pairs(letter.fields, "env")


def read_output(letter: Letter) -> bool:
    """A null exit code means that the process still runs, which today is no exit status at all."""
    fields = letter.fields
    if "output" not in fields or "exitStatus" in fields or ("truncated" in fields and "exitCode" not in fields):
        return False
    fields.setdefault("truncated", False)
    exit_code, signal = fields.pop("exitCode", None), fields.pop("signal", None)
    if exit_code is not None:
        fields["exitStatus"] = {"exitCode": exit_code} | ({} if signal is None else {"signal": signal})
    return True


def write_output(letter: Letter) -> bool:
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


def read_timeout(letter: Letter) -> bool:
    """Nobody times a wait today: the agent that had enough kills the command."""
    return letter.fields.pop("timeout", None) is not None


def read_exit(letter: Letter) -> bool:
    """Output is fetched with `terminal/output`."""
    return letter.fields.pop("output", None) is not None


def write_exit(letter: Letter) -> bool:
    """The seed knows exit codes only."""
    fields = letter.fields
    if fields.get("exitCode") is not None or not isinstance(fields.get("signal"), str):
        return False
    fields["exitCode"] = _exit_code(None, fields["signal"])
    return True


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
        "left out: whoever had enough kills the command",
        params(TERMINAL_WAIT_FOR_EXIT),
        read_timeout,
    ),
    Rule(
        "wait-output",
        ("seed-004",),
        "`terminal/wait_for_exit` answers `output` and `exitCode`",
        "`exitCode` and `signal`; a signal is written as the exit code a shell gives it",
        results(TERMINAL_WAIT_FOR_EXIT),
        read_exit,
        write_exit,
    ),
)
