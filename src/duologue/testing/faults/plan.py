"""Which faults a connection has."""

from __future__ import annotations

from random import Random
from typing import Literal

from msgspec import Struct

CHANCES = ("split", "merge", "delay", "duplicate", "drop", "garbage", "giant")


class FaultPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Faults of a connection; without arguments there are none. Chances are numbers from 0 to 1, for each message.

    Attributes:
        direction: Messages that have faults: those that are sent, those that are received, or both.
        split: Chance that a message arrives apart from others, and, on a byte stream, in pieces.
        merge: Chance that a message waits a moment and arrives together with the next one.
        delay: Chance that a message, and all behind it, is late.
        max_delay: Longest delay in seconds.
        duplicate: Chance that a message arrives twice.
        drop: Chance that a message does not arrive.
        garbage: Chance that a line that is no message arrives before it.
        giant: Chance that a very long message of an unknown method arrives before it.
        giant_bytes: Length of these.
        end_after: Messages in one direction after which the connection ends; `None`: it does not.
        is_torn: It ends in the middle of the next message.
        bytes_per_second: Speed of a slow reader; `None`: it reads everything at once.
    """

    direction: Literal["both", "send", "receive"] = "both"
    split: float = 0.0
    merge: float = 0.0
    delay: float = 0.0
    max_delay: float = 5.0
    duplicate: float = 0.0
    drop: float = 0.0
    garbage: float = 0.0
    giant: float = 0.0
    giant_bytes: int = 1_000_000
    end_after: int | None = None
    is_torn: bool = False
    bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        for name in CHANCES:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"`{name}` is a chance from 0 to 1, not {getattr(self, name)}")
        if self.bytes_per_second is not None and self.bytes_per_second <= 0:
            raise ValueError(f"`bytes_per_second` must be more than 0, not {self.bytes_per_second}")
        if self.is_torn and self.end_after is None:
            raise ValueError("`is_torn` needs `end_after`: the message that is torn")

    @classmethod
    def random(cls, seed: int) -> FaultPlan:
        """Return a plan with one to four kinds of faults; the same seed gives the same plan."""
        random = Random(f"plan {seed}")
        kinds = random.sample([*CHANCES, "end", "slow"], random.randint(1, 4))
        chances = {kind: random.choice([0.05, 0.3, 1.0 if kind in ("split", "merge") else 0.6]) for kind in kinds}
        ends, is_slow = chances.pop("end", None), chances.pop("slow", None)
        return cls(
            direction=random.choice(["both", "send", "receive"]),
            max_delay=random.choice([0.1, 5.0, 100.0]),
            giant_bytes=random.choice([10_000, 200_000]),
            end_after=None if ends is None else random.randint(0, 20),
            is_torn=ends is not None and random.random() < 0.5,
            bytes_per_second=None if is_slow is None else random.choice([1_000.0, 100_000.0]),
            **chances,
        )

    def __str__(self) -> str:
        """Name the fields that differ from their defaults."""
        default = FaultPlan()
        names = [name for name in self.__struct_fields__ if getattr(self, name) != getattr(default, name)]
        return f"FaultPlan({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"
