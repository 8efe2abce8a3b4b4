"""A process that times functions on request, so that two environments can be measured in turns. Standard library only.

It reads a name per line and answers with the microseconds one item took.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

ROUNDS = 10
"""Long enough that what another process left in the caches of the processor does not matter."""

Case = tuple[Callable[[Any], object], Sequence[Any]]
"""A function, and the items it is called with one after the other."""


def serve(cases: dict[str, Case]) -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        work, items = cases[line.strip()]
        began = time.process_time_ns()
        for _ in range(ROUNDS):
            for item in items:
                work(item)
        print((time.process_time_ns() - began) / len(items) / ROUNDS / 1000, flush=True)
