"""The cost of one update, one request and one turn of the public API, counted instead of timed.

Counts do not depend on how busy a machine is: `tests/performance` holds them against a budget. Each is taken for some
and for twice as many, and the difference is divided, so that what happens once does not count.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
import sys
import tracemalloc
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from types import CodeType, FrameType
from typing import Any, TypeVar

from benchmarks.pair import ACTIONS, AGENT, CLIENT, IN_FLIGHT, LOOP, SIDE, SIDES, WIRES, open_pair
from benchmarks.peers import ROOT

PACKAGE = str(ROOT / "src" / "duologue")
BENCHMARKS = str(ROOT / "benchmarks")
COUNTS = {"update": 256, "request": 2 * IN_FLIGHT, "round trip": 64, "prompt": 16, "permission": 16}
"""How many of each are counted; the difference to twice as many is what is reported."""
MEMORY_FACTORS = {"prompt": 8, "permission": 8}
"""How many times as many where a few blocks that depend on addresses would weigh too much."""

SETTLING_TURNS = 20
INLINE_NAMES = {"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"}
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
T = TypeVar("T")
FOREIGN, OWN, UNCOUNTED = range(3)


@dataclass(frozen=True)
class Cost:
    """The average cost of one of something.

    Attributes:
        agent: Calls of Python functions on the agent's side, the standard library's included.
        client: The same on the client's side.
        loop: The same of the event loop itself.
        own: Those of all that are duologue's.
        builtin: Calls of functions written in C, on all sides.
        blocks: Blocks of memory that duologue allocated and that stay allocated, to the nearest whole one.
    """

    agent: float
    client: float
    loop: float
    own: float
    builtin: float
    blocks: int


def count(action: str, wire: str) -> Cost:
    """Count calls first and memory in a second run, because each of them disturbs the other."""
    times = COUNTS[action]
    calls = run(_difference(action, wire, _count_calls, times))
    tracemalloc.start()  # from the beginning: what replaces something that was not traced would count as new
    try:
        memory = run(_difference(action, wire, _count_memory, times * MEMORY_FACTORS.get(action, 1)))
    finally:
        tracemalloc.stop()
    return Cost(**{name: round(value, 2) for name, value in calls.items()}, blocks=round(memory["blocks"]))


class _Clock(selectors.DefaultSelector):
    """Time that passes while a loop waits, and never while it works: no timer fires because a machine is slow."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout)
        if not ready and timeout is not None and timeout > 0:
            self.now += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Clock()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run something by a clock that does not depend on the machine."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


Meter = Callable[[], Callable[[], dict[str, int]]]
"""Begin to count; what it returns ends that and has the counts."""


async def _difference(action: str, wire: str, meter: Meter, times: int) -> dict[str, float]:
    act = ACTIONS[action]
    async with open_pair(wire) as session:
        await act(session, 3 * times)  # caches are filled, and what is kept of the last ones has been kept before
        taken: list[dict[str, int]] = []
        for factor in (1, 2):
            await settle()
            gc.disable()
            try:
                end = meter()
                try:
                    await act(session, factor * times)
                finally:
                    await settle()
                    taken.append(end())
            finally:
                gc.enable()
    one, two = taken
    return {name: (two[name] - one[name]) / times for name in one}


async def settle() -> None:
    """Let everything end that has nothing left to do, and free what is free."""
    for _ in range(SETTLING_TURNS):
        await asyncio.sleep(0)
    gc.collect()
    _forget_names()


def _forget_names() -> None:
    """Empty the interpreter's cache of attributes: which names it keeps depends on addresses."""
    forget = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
    forget()


def _count_calls() -> Callable[[], dict[str, int]]:
    sides: dict[str, int] = dict.fromkeys(SIDES, 0)
    totals = {"own": 0, "builtin": 0}
    kinds: dict[CodeType, int] = {}
    side_of = SIDE.get

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "c_call"):
            return
        code = frame.f_code
        kind = kinds.get(code)
        if kind is None:
            kind = kinds[code] = _kind(code)
        if kind == UNCOUNTED:
            return
        if event == "c_call":
            totals["builtin"] += 1
            return
        sides[side_of()] += 1
        totals["own"] += kind == OWN

    def end() -> dict[str, int]:
        sys.setprofile(None)
        return {**totals, AGENT: sides[AGENT], CLIENT: sides[CLIENT], LOOP: sides[LOOP]}

    sys.setprofile(note)
    return end


def _kind(code: CodeType) -> int:
    """Tell whose function it is; the benchmark's own, comprehensions and the order of timers do not count.

    Comprehensions are no functions in every Python, and how often one that goes through a set is resumed depends on
    addresses; how often timers are compared depends on the time.
    """
    if code.co_filename.startswith(PACKAGE):
        return UNCOUNTED if code.co_name in INLINE_NAMES else OWN
    return UNCOUNTED if code.co_name in INLINE_NAMES or is_of_benchmark(code) else FOREIGN


def is_of_benchmark(code: CodeType) -> bool:
    """Tell whether a call is one that only the measuring makes."""
    return code.co_filename.startswith(BENCHMARKS) or code is asyncio.TimerHandle.__lt__.__code__


def _count_memory() -> Callable[[], dict[str, int]]:
    before = tracemalloc.take_snapshot()

    def end() -> dict[str, int]:
        after = tracemalloc.take_snapshot()
        own = [tracemalloc.Filter(inclusive=True, filename_pattern=f"{PACKAGE}/*")]
        changes = after.filter_traces(own).compare_to(before.filter_traces(own), "filename")
        return {"blocks": sum(each.count_diff for each in changes)}

    return end


def cost_table() -> str:
    """Write the costs of everything over every wire, as `tests/performance/budget.toml` has them."""
    lines = [f'["{VERSION}"]']
    for wire in WIRES:
        for action in ACTIONS:
            cost = asdict(count(action, wire))
            pairs = ", ".join(f"{name} = {value:g}" for name, value in cost.items())
            lines.append(f'"{action}, {wire}" = {{ {pairs} }}')
    return "\n".join(lines)
