"""The race of a text against the end of the turn that it is sent into."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn, connect
from duologue.types import ClientTurn, SteeringMessage
from tests.client.test_steering import user_messages

RACES = 100


@pytest.mark.fault("CAN-16")
async def test_in_every_schedule_each_text_has_exactly_one_outcome_and_none_is_lost(
    tmp_path: Path, chaos_factor: int, record_property: Any
) -> None:
    count = RACES * chaos_factor
    record_property("count", count)
    schedule = random.Random(14)
    taken: list[str] = []
    prompts: list[str] = []
    agent = Agent[Any]("steered", steering=True, protocol_versions=(1, 2))

    async def rest(most: int) -> None:
        for _ in range(schedule.randrange(most)):
            await asyncio.sleep(0)

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        prompts.append(turn.text)
        for _ in range(schedule.randrange(4)):
            await rest(12)
            await turn.say("x")
            if schedule.randrange(2):
                taken.extend([message.text for message in await turn.take_steering()])
        if schedule.randrange(3) == 0:

            async def read() -> None:
                async for message in turn.steering():
                    note(message)

            reading = turn.session.tasks.start(read())
            await rest(12)
            reading.cancel()

    def note(message: SteeringMessage) -> None:
        taken.append(message.text)

    for version in (1, 2):
        async with connect(agent, protocol_versions=(version,)) as remote, remote.new_session(tmp_path) as session:
            for number in range(count // 2):
                texts = [f"{version}.{number}.{each}" for each in range(schedule.randrange(1, 5))]
                otherwise = schedule.choice([None, "queue", "cancel_and_send"])
                async with session.prompt(f"go {version}.{number}") as turn, asyncio.TaskGroup() as group:

                    async def steer(turn: ClientTurn, text: str, otherwise: Any) -> Any:
                        await rest(40)
                        return await turn.steer(text, otherwise=otherwise)

                    sent = [group.create_task(steer(turn, text, otherwise)) for text in texts]
                    if schedule.randrange(10) == 0:
                        await rest(30)
                        await turn.cancel()
                    elif schedule.randrange(2):
                        async for _ in turn:
                            pass
                for text, each in zip(texts, sent, strict=True):
                    got = each.result()
                    assert (got.turn is None) == (got.outcome == "injected" or otherwise is None)
                    if got.turn is not None:
                        await got.turn
                    assert got.outcome in ("injected", "prompt_required")
                    assert taken.count(text) == (got.outcome == "injected")
                    if got.turn is not None and got.turn.stop_reason == "cancelled":
                        continue  # the turn was cancelled, and with it the prompts behind it
                    assert prompts.count(text) == (got.outcome == "prompt_required" and otherwise is not None)
                    assert user_messages(turn).count(text) == taken.count(text) + prompts.count(text)
                taken.clear()
                prompts.clear()
