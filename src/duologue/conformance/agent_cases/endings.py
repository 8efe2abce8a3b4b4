"""Cases about the end of an agent on stdio: it exits with its stdin, and leaves no processes behind."""

from __future__ import annotations

import asyncio

from duologue.conformance.agent_driver import DrivenTurn
from duologue.conformance.agent_process import RawProcessTransport
from duologue.conformance.case import CaseEnded, CaseSkipped, CheckCase, NotProvoked, case
from duologue.conformance.checked_agent import AgentRun
from duologue.transports.process.process_tree import descendants

POLL_SECONDS = 0.02
"""Between two looks at the table of processes, which reports nothing by itself."""


@case("end-of-input", 183, 184, transports=("stdio",), is_passive=False)  # a turn that is cut off ends at any message
async def end_of_input(run: AgentRun) -> None:
    """Close the agent's stdin in the middle of a turn."""
    async with run.session({}) as (agent, session):
        transport = agent.peer.transport
        if not isinstance(transport, RawProcessTransport):
            raise CaseSkipped("the agent has no stdin")
        if run.knows("process"):
            await _process_started(run, transport, agent.start_prompt(session, run.prompt("process")))
        elif run.knows("long"):
            await agent.start_prompt(session, run.prompt("long")).started()
        transport.end_input()
        await _expect_exit(run, transport)
        await _expect_none_left(run, transport)


async def _process_started(run: AgentRun, transport: RawProcessTransport, started: DrivenTurn) -> None:
    """Wait until the agent has started a process for a turn."""
    try:
        async with run.limit.bound():
            while not descendants(transport.pid or 0):
                if started.has_ended:
                    raise NotProvoked("the agent started no process")
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise NotProvoked("the agent started no process") from None


async def _expect_exit(run: AgentRun, transport: RawProcessTransport) -> None:
    try:
        async with run.limit.bound():
            await transport.exited()
    except TimeoutError:
        run.expect(183, False, f"the agent still runs {run.limit.seconds:g} s after the end of its stdin")
        raise CaseEnded from None
    run.expect(183, True, "")


async def _expect_none_left(run: AgentRun, transport: RawProcessTransport) -> None:
    try:
        async with run.limit.bound():
            while transport.left_behind():  # noqa: ASYNC110 - the system reports only the end of one's own children
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        pids = ", ".join(str(each.pid) for each in transport.left_behind())
        run.expect(184, False, f"processes are left after the end of the agent: {pids}")
        return
    run.expect(184, True, "")


CASES: tuple[CheckCase[AgentRun], ...] = (end_of_input,)
