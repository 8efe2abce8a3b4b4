"""A client that shows a background task of its agent, and stops it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from duologue import connect
from duologue.events import BackgroundTask

AGENT = [sys.executable, str(Path(__file__).with_name("background_agent.py"))]


async def main() -> None:
    async with connect(AGENT, unstable={"background_tasks"}) as agent, agent.new_session(".") as session:
        print((await session.prompt("pytest")).text, end="")
        async for event in session.events():  # between turns, too
            if isinstance(event, BackgroundTask):
                print(f"{event.title}: {event.state}, {event.summary}")
                print(f"stopped: {await session.stop_task(event.task_id)}")
                break
        for task in session.background_tasks:
            print(f"{task.title}: {task.state}")


if __name__ == "__main__":
    asyncio.run(main())
