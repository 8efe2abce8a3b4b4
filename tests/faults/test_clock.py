"""PRC-17: no wait depends on the wall clock."""

from __future__ import annotations

import ast
import asyncio
import random
import time
from pathlib import Path

import pytest

import duologue
from duologue.errors import ConnectionLost
from duologue.runtime.connection import CANCEL_GRACE
from tests.chaos.stopwatch import Stopwatch
from tests.faults.ends import HOLD, NOTE, Anything, Side, open_end

DAY = 86_400.0
SOURCE = Path(duologue.__file__).parent
PACKAGES = ("jsonrpc", "schema", "runtime", "transports")
WALL_CLOCKS = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "time.localtime"}


@pytest.mark.fault("PRC-17")
async def test_no_wait_fires_early_or_never_when_the_wall_clock_jumps(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_time, chance = time.time, random.Random(17)
    monkeypatch.setattr(time, "time", lambda: true_time() + chance.choice([-DAY, 0.0, DAY]))
    async with open_end(side) as end:
        call = asyncio.ensure_future(end.connection.request(HOLD, Anything(session_id="s")))
        await end.next()
        end.ask(1, "hold")
        end.send(b'{"jsonrpc":"2.0","method":"note","params":{"sessionId":"s"}}')
        await end.until_called(2)
        async with Stopwatch() as watch:
            await end.wire.aclose()
            with pytest.raises(ConnectionLost):
                await call
            await end.connection.wait_closed()
        assert watch.seconds < 2 * CANCEL_GRACE
        with pytest.raises(ConnectionLost):
            await end.connection.notify(NOTE, Anything())


@pytest.mark.fault("PRC-17")
@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_that_waits_reads_the_wall_clock(package: str) -> None:
    readers = [
        f"{path.name}:{node.lineno}"
        for path in (SOURCE / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in WALL_CLOCKS
    ]
    assert readers == []
