"""A check without a command: a user works with the client, and each conversation takes the next case."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from duologue.conformance.client_side.client_check import ClientCheck
from duologue.conformance.client_side.client_start import InteractiveClient
from duologue.conformance.client_side.endpoints import Endpoint
from duologue.conformance.report import Report
from duologue.conformance.rule_selection import RuleSelection
from tests.conformance.in_process_client import InProcessClient, OwnClock


async def _check_with_user(fault: str, directory: Path) -> tuple[Report, list[str]]:
    """Check the faulty client, started again by its user whenever the check says so."""
    steps: asyncio.Queue[str] = asyncio.Queue()
    seen: list[str] = []
    endpoints: list[Endpoint] = []
    check = ClientCheck(
        InteractiveClient(steps.put_nowait),
        versions=(1,),
        selection=RuleSelection.of(None, ["13", "7", "15"], []),
        on_address=endpoints.append,
    )

    async def use() -> None:
        async with AsyncExitStack() as stack:
            while True:
                seen.append(await steps.get())
                if seen[-1].startswith(("start", "restart")):
                    client = InProcessClient(1, fault).start(endpoints[0], directory, cancels=False)
                    await stack.enter_async_context(client)

    with OwnClock():
        async with asyncio.TaskGroup() as group:
            user = group.create_task(use())
            report = await check.run()
            user.cancel()
    return report, seen


def test_each_conversation_takes_the_next_case(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        report, steps = runner.run(_check_with_user("unknown-method-accepted", tmp_path))

    verdicts = {each.rule.number: str(each.verdict) for each in report.results}
    assert report.harness_errors == []
    assert verdicts == {7: "PASS", 13: "FAIL", 15: "PASS"}
    assert steps.count("send any prompt") >= 4
