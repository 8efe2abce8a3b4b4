"""/stream, /tools, /big, /slow, /steer, /cancel-me, /stubborn, /background: amounts and times."""

from __future__ import annotations

import asyncio
import selectors
from pathlib import Path

import pytest

from duologue.schema import v1
from tests.builtin.harness import open_harness


@pytest.mark.parametrize(("argument", "count"), [("", 100), ("0", 0), ("1", 1), ("1,000", 1000), ("5_000", 5000)])
async def test_a_stream_of_n_is_exactly_n_message_chunks(tmp_path: Path, argument: str, count: int) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask(f"/stream {argument}")
        assert [chunk.content.text for chunk in harness.of(v1.AgentMessageChunk)] == [f"{n} " for n in range(count)]


async def test_tool_calls_come_in_every_kind_and_both_ends(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert "Those were 12 tool calls" in await harness.ask("/tools 12")
        calls = harness.of(v1.ToolCall)
        assert len(calls) == len({call.tool_call_id for call in calls}) == 12
        assert len({call.kind for call in calls}) == 10
        ends = [update.status for update in harness.of(v1.ToolCallUpdate) if update.status in ("completed", "failed")]
        assert ends == ["completed", "completed", "completed", "failed"] * 3


async def test_a_big_chunk_has_as_many_bytes_as_were_asked_for(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("/big 3000000")
        (chunk,) = harness.of(v1.AgentMessageChunk)
        assert chunk.content.text == "x" * 3_000_000


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop on which waiting takes no time: its clock jumps to the next thing to do."""

    def __init__(self) -> None:
        self.skipped = 0.0
        super().__init__(_SkippingSelector(self))

    def time(self) -> float:
        return super().time() + self.skipped


class _SkippingSelector(selectors.DefaultSelector):
    def __init__(self, loop: SkippingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            return super().select(None)
        if not ready:
            self._loop.skipped += timeout or 0.0
        return ready


@pytest.mark.parametrize(("command", "least"), [("/slow", 10.0), ("/slow 3", 3.0), ("/slow 60", 60.0)])
def test_slow_lasts_ten_seconds_or_as_many_as_the_user_says(tmp_path: Path, command: str, least: float) -> None:
    async def take_the_time() -> float:
        loop = asyncio.get_running_loop()
        async with open_harness(tmp_path, seconds=100) as harness:
            began = loop.time()
            await harness.ask(command)
            return loop.time() - began

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        assert least <= runner.run(take_the_time()) < least + 5


@pytest.mark.parametrize("command", ["/slow", "/cancel-me"])
async def test_a_waiting_command_is_cancelled_at_once(tmp_path: Path, command: str) -> None:
    async with open_harness(tmp_path) as harness, asyncio.timeout(60):
        assert (await harness.cancelled(command)).stop_reason == "cancelled"
        assert "done" not in harness.text


async def test_cancel_me_says_that_it_was_cancelled_and_fails_its_tool_call(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.cancelled("/cancel-me")
        assert harness.text == "Cancel me. You cancelled me.\n"
        assert harness.status == "failed"


def test_steer_ends_by_itself_if_no_text_comes(tmp_path: Path) -> None:
    async def wait() -> str:
        async with open_harness(tmp_path, seconds=100) as harness:
            return await harness.ask("/steer")

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        assert runner.run(wait()).endswith("You sent nothing more.\n")


def test_a_stubborn_turn_is_cancelled_all_the_same(tmp_path: Path) -> None:
    async def cancel_and_go_on() -> None:
        async with open_harness(tmp_path) as harness:
            assert (await harness.cancelled("/stubborn")).stop_reason == "cancelled"
            assert harness.text.endswith("All right, then.\n")
            assert "You said" in await harness.ask("still there?")

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        runner.run(cancel_and_go_on())


async def test_work_in_the_background_speaks_between_turns(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("/background 0.05")
        assert harness.text == "I go on after this turn.\n"
        await harness.until_text("This came between turns.")


async def test_work_in_the_background_ends_with_its_session(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.ask("/background 3600")
        async with asyncio.timeout(60):
            await harness.client.connection.request(
                v1.SESSION_CLOSE, v1.CloseSessionRequest(session_id=harness.session)
            )
