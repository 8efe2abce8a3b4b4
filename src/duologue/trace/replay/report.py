"""The result of a replay to an agent."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from duologue.trace.replay.deviation import Comparison, Deviation

FORMAT = 1
"""Version of the report as JSON."""


class ReplayReport(Struct, frozen=True, kw_only=True):
    """The deviations of an agent from a recording.

    Attributes:
        recording: The file.
        compare: What was compared, `structure` or `text`; times are not.
        requests: Number of requests that were sent to the agent.
        deviations: Where the agent deviates, in order; empty if it does not.
        notes: Sentences about what could not be replayed.
    """

    recording: str
    compare: Comparison
    requests: int
    deviations: list[Deviation]
    notes: list[str]

    @property
    def is_same(self) -> bool:
        """True if the agent did what was recorded."""
        return not self.deviations

    def assert_same(self) -> None:
        """Check that the agent did what was recorded.

        Raises:
            AssertionError: It did not; the message is the whole report.
        """
        if self.deviations:
            raise AssertionError(str(self))

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values, with the version of their format."""
        return {"format": FORMAT, "is_same": self.is_same, **msgspec.to_builtins(self)}

    def __str__(self) -> str:
        """Return the report as text: a line that begins with `-` was recorded, one with `+` came instead."""
        count = len(self.deviations)
        result = "no deviation" if not count else "1 deviation" if count == 1 else f"{count:,} deviations"
        sent = f"{self.requests:,} request{'s' if self.requests != 1 else ''}"
        head = f"{self.recording}: {result} in {sent} ({self.compare} compared)"
        return "\n".join([head, *(f"note: {note}" for note in self.notes), *map(str, self.deviations)])
