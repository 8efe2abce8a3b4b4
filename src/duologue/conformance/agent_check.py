"""Check an agent: run the cases against it and combine what they found."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from duologue.client.target import Target
from duologue.conformance.agent_cases.table import CASES
from duologue.conformance.case import CaseSkipped, CheckCase
from duologue.conformance.case_runner import make_result, run_case
from duologue.conformance.checked_agent import AgentRun, CheckedAgent
from duologue.conformance.profile import DEFAULT, Profile
from duologue.conformance.raw_peer import Json, PeerFailed
from duologue.conformance.report import Report
from duologue.conformance.rule_selection import RuleSelection
from duologue.conformance.slots import MOST_WAITING, CaseSlots
from duologue.conformance.verdicts import CaseResult, combine
from duologue.conformance.wait_limit import WaitLimit

SECONDS = 30.0
"""Limit of any single wait for the agent: generous, because no rule is about time."""
JOBS = 2
"""Cases that run at the same time."""
VERSIONS = (1, 2)


class AgentCheck:
    """Runs the cases against one agent.

    Args:
        target: The agent, as in `duologue.connect`.
        profile: How to bring it to do things.
        selection: The rules to judge.
        versions: Versions of the protocol to check; by default those that the agent supports.
        limit: Seconds that any single wait for the agent may take. A case that had to wait longer is repeated at the
            end, alone and with three times the limit, because the machine may have been busy: the second run decides.
        jobs: Cases that run at the same time; more than one lets a few others start while some only wait.
        on_case: Called with each result as it is there.
        cases: The cases.
    """

    def __init__(
        self,
        target: Target,
        *,
        profile: Profile = DEFAULT,
        selection: RuleSelection | None = None,
        versions: Sequence[int] | None = None,
        limit: float = SECONDS,
        jobs: int = JOBS,
        on_case: Callable[[CaseResult], None] = lambda _: None,
        cases: Sequence[CheckCase[AgentRun]] = CASES,
    ) -> None:
        self._agent = CheckedAgent(target, profile)
        self._limit = limit
        self._selection = selection or RuleSelection()
        self._versions = versions
        self._slots = CaseSlots(jobs)
        self._jobs = jobs
        self._on_case = on_case
        self._cases = cases
        self._info: Json = {}
        self._is_reached = False
        self._problem = ""

    async def run(self) -> Report:
        """Run the cases and return the report.

        Raises:
            StartError: The agent cannot be started or reached.
        """
        began, started = time.monotonic(), datetime.now(UTC)
        await self._agent.prepare()
        try:
            versions = tuple(self._versions or await self._supported())
            self._agent.answers_unknown = await self._ask("unknown-method", versions[0], self._answers_unknown)
            results = await self._run_cases(versions)
        finally:
            await self._agent.aclose()
        rules = self._selection.rules("agent")
        return Report(
            side="agent",
            target=self._agent.name,
            transport=self._agent.transport,
            versions=versions,
            rule_set=self._selection.rule_set,
            info=self._info,
            profile=self._agent.profile.name,
            started=started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - began, 3),
            results=[each for version in versions for each in combine(rules, version, results)],
            cases=results,
            problem="" if self._is_reached else self._problem,
        )

    async def _supported(self) -> list[int]:
        """Return the versions that the agent supports, found by asking for each."""
        return [version for version in VERSIONS if await self._ask("versions", version, self._is_version)] or [1]

    async def _is_version(self, run: AgentRun) -> bool:
        try:
            async with run.connect() as agent:
                self._info = agent.result.get("agentInfo") or agent.result.get("info") or self._info
                self._is_reached = True
        except (CaseSkipped, PeerFailed) as error:
            self._note_failure(error)
            return False
        return True

    def _note_failure(self, error: CaseSkipped | PeerFailed) -> None:
        """Remember why the agent was not initialized; one that refuses a version was reached."""
        self._is_reached |= isinstance(error, CaseSkipped)
        self._problem = str(error)

    async def _answers_unknown(self, run: AgentRun) -> bool:
        """Return whether the agent answers requests of unknown methods; other cases need one that is answered."""
        try:
            async with run.connect() as agent:
                self._is_reached = True
                try:
                    await agent.peer.barrier()
                except PeerFailed:
                    return agent.peer.ended.is_set()
        except (CaseSkipped, PeerFailed) as error:
            self._note_failure(error)
            return True
        return True

    async def _ask(self, name: str, version: int, ask: Callable[[AgentRun], Awaitable[bool]]) -> bool:
        """Find out something about the agent that cases depend on; ask again if the first wait took too long."""
        answer = False
        for is_repeated in (False, True):
            limit = WaitLimit(self._limit, is_repeated=is_repeated)
            with tempfile.TemporaryDirectory(prefix="duologue-check-") as folder:
                answer = await ask(AgentRun(name, (), version, self._agent, Path(folder), limit))
            if not limit.is_exceeded:
                break
        return answer

    async def _run_cases(self, versions: Sequence[int]) -> list[CaseResult]:
        chosen = [
            (each, version)
            for version in versions
            for each in self._cases
            if version in each.versions and self._selection.wants_case(each, "agent")
        ]
        results = list(await asyncio.gather(*(self._run_case(*each, self._slots) for each in chosen)))
        slots = CaseSlots(1, MOST_WAITING if self._jobs > 1 else 0)
        cut_off = [index for index, each in enumerate(results) if each.has_timed_out]
        repeated = await asyncio.gather(*(self._run_case(*chosen[index], slots, is_repeated=True) for index in cut_off))
        for index, result in zip(cut_off, repeated, strict=True):
            results[index] = result
        return results

    async def _run_case(
        self, case: CheckCase[AgentRun], version: int, slots: CaseSlots, *, is_repeated: bool = False
    ) -> CaseResult:
        async with slots.take() as slot:
            began, limit = time.monotonic(), WaitLimit(self._limit, is_repeated=is_repeated)
            with tempfile.TemporaryDirectory(prefix="duologue-check-") as folder:
                run = AgentRun(case.name, case.rules, version, self._agent, Path(folder), limit, slot.release)
                errors = await run_case(case, run, self._agent.transport)
            result = make_result(case, run, "agent", self._selection, errors, run.stderr)
            result.seconds = round(time.monotonic() - began, 3)
            result.is_repeated = is_repeated
            if is_repeated or not result.has_timed_out:
                self._on_case(result)
            return result
