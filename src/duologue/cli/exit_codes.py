"""Exit codes of `duologue`. Scripts rely on them: a number never changes its meaning."""

from __future__ import annotations

from enum import IntEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class ExitCode(IntEnum):
    """How a command ended: a number, and its description for the user."""

    description: str

    def __new__(cls, number: int, description: str) -> Self:
        """Make a member of the enumeration."""
        code = int.__new__(cls, number)
        code._value_ = number
        code.description = description
        return code

    OK = 0, "the agent answered"
    AGENT_ERROR = 1, "the agent failed, could not be started, or exited; or the output could not be written"
    USAGE = 2, "the command line is wrong, or needs something this agent does not offer"
    REFUSED = 3, "the agent refused the prompt"
    LIMIT = 4, "the agent reached its limit of tokens or requests"
    DENIED = 5, "the agent was denied a permission, and ended, cancelled or failed the turn"
    TIMEOUT = 6, "the agent did not finish in time, or stalled"
    LOGIN = 7, "the agent requires a login"
    PROTOCOL = 8, "the agent violated the protocol, or supports no common version of it"
    EMPTY_ANSWER = 9, "the turn ended, but the agent sent no answer"
    CHANGED = 10, "an installed agent differs from the lock file (`duologue agents probe`)"
    HARNESS = 11, "the checker itself failed, so that the check proves nothing (`duologue check`)"
    BELOW_THRESHOLD = 12, "an agent is below a threshold (`duologue eval`, `--fail-under`)"
    INCOMPLETE = (
        13,
        "trials are missing, or a limit stopped the run; it can be continued (`duologue eval run --resume`)",
    )
    INTERRUPTED = 130, "interrupted with Ctrl-C, or cancelled"
    BROKEN_PIPE = 141, "stdout was closed by the reader (broken pipe)"


class UsageError(Exception):
    """The command line asks for something impossible; the message says what is possible."""


STOP_CODES = {
    "refusal": ExitCode.REFUSED,
    "max_tokens": ExitCode.LIMIT,
    "max_turn_requests": ExitCode.LIMIT,
    "cancelled": ExitCode.INTERRUPTED,
}
"""Stop reasons that are not a success."""
