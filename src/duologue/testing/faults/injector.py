"""Apply a plan of faults to one direction of a connection."""

from __future__ import annotations

from collections import deque
from random import Random

from msgspec import Struct

from duologue.testing.faults.plan import FaultPlan

MERGE_SECONDS = 0.01
"""How long a message waits for the next one."""
MOST_NOTES = 100
"""Faults of one direction that are named in a report; the first ones usually explain the rest."""

RECENT: deque[FaultInjector] = deque(maxlen=8)
"""The newest injectors, for the report of a failed test."""


class Delivery(Struct, frozen=True):
    """Bytes that arrive in place of a message.

    Attributes:
        data: The message, without its line end; a part of one, if it is torn.
        wait: Seconds after the delivery before it.
        is_apart: It arrives alone.
        is_torn: No line end follows.
    """

    data: bytes
    wait: float = 0.0
    is_apart: bool = False
    is_torn: bool = False


class FaultInjector:
    """Decides what happens to each message of one direction.

    Args:
        plan: The faults.
        seed: Same seed, same plan, same messages: same faults.
        name: Name of the direction.

    Attributes:
        is_ended: The connection has ended; nothing is delivered from here on.
    """

    def __init__(self, plan: FaultPlan, seed: int, name: str) -> None:
        self.is_ended = False
        self._plan = plan
        self._seed = seed
        self._name = name
        self._random = Random(f"{name} {seed}")
        self._count = 0
        self._notes: list[str] = []
        RECENT.append(self)

    def __str__(self) -> str:
        """Return the seed, the plan and the faults so far."""
        faults = "; ".join(self._notes) or "none"
        return f"fault seed {self._seed}, {self._plan}, faults of the {self._name} direction: {faults}"

    @property
    def end(self) -> str:
        """The reason why the connection ended."""
        return f"the connection ended after {self._count - 1} messages, as planned (fault seed {self._seed})"

    def apply(self, frame: bytes) -> list[Delivery]:
        """Return what arrives in place of a message, in order."""
        if self.is_ended:
            return []
        plan = self._plan
        self._count += 1
        if plan.end_after is not None and self._count > plan.end_after:
            return self._ended(frame)
        if self._chance(plan.drop, "dropped"):
            return []
        found: list[bytes] = []
        if self._chance(plan.garbage, "preceded by garbage"):
            found.append(self._garbage(frame))
        if self._chance(plan.giant, f"preceded by {plan.giant_bytes} bytes"):
            found.append(b'{"jsonrpc":"2.0","method":"_giant","params":{"text":"%s"}}' % (b"x" * plan.giant_bytes))
        found.append(frame)
        if self._chance(plan.duplicate, "sent twice"):
            found.append(frame)
        wait = self._wait()
        is_apart = self._chance(plan.split)
        rate = plan.bytes_per_second
        waits = [wait, *[0.0] * (len(found) - 1)]
        return [
            Delivery(data, wait + (len(data) / rate if rate else 0.0), is_apart)
            for data, wait in zip(found, waits, strict=True)
        ]

    def pieces(self, data: bytes) -> list[bytes]:
        """Return bytes in pieces, cut anywhere, even inside a character."""
        cuts = sorted(self._random.randint(0, len(data)) for _ in range(self._random.randint(1, 4)))
        ends = [*cuts, len(data)]
        return [data[start:end] for start, end in zip([0, *cuts], ends, strict=True) if start < end]

    def _ended(self, frame: bytes) -> list[Delivery]:
        self.is_ended = True
        if not self._plan.is_torn or len(frame) < 2:
            self._note("not delivered: the connection ends")
            return []
        size = self._random.randrange(1, len(frame))
        self._note(f"torn after {size} of {len(frame)} bytes: the connection ends")
        return [Delivery(frame[:size], is_torn=True)]

    def _wait(self) -> float:
        if self._chance(self._plan.delay):
            seconds = self._random.uniform(0, self._plan.max_delay)
            self._note(f"delayed by {seconds:.3f} s")
            return seconds
        return MERGE_SECONDS if self._chance(self._plan.merge) else 0.0

    def _chance(self, chance: float, note: str = "") -> bool:
        if chance == 0 or self._random.random() >= chance:
            return False
        if note:
            self._note(note)
        return True

    def _note(self, fault: str) -> None:
        if len(self._notes) < MOST_NOTES:
            self._notes.append(f"message {self._count} {fault}")

    def _garbage(self, frame: bytes) -> bytes:
        kind = self._random.randrange(4)
        if kind == 0:
            data = self._random.randbytes(self._random.randint(1, 200)).replace(b"\n", b" ")
        elif kind == 1:
            data = frame[: self._random.randint(1, max(1, len(frame) - 1))]
        elif kind == 2:
            data = self._random.choice([b"[]", b"null", b"{}", b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"2.0","id":null}'])
        else:
            data = b"Warning: something was printed to stdout"
        return data if data.strip() else b"?"
