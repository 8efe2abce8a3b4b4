"""Check an agent: run the cases against it and combine what they found."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
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
from duologue.conformance.slots import CaseSlots
from duologue.conformance.verdicts import CaseResult, combine

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
        limit: Seconds that any single wait for the agent may take.
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
        self._agent = CheckedAgent(target, profile, limit)
        self._selection = selection or RuleSelection()
        self._versions = versions
        self._slots = CaseSlots(jobs)
        self._on_case = on_case
        self._cases = cases
        self._info: Json = {}

    async def run(self) -> Report:
        """Run the cases and return the report.

        Raises:
            StartError: The agent cannot be started or reached.
        """
        began, started = time.monotonic(), datetime.now(UTC)
        await self._agent.prepare()
        try:
            versions = tuple(self._versions or await self._supported())
            self._agent.answers_unknown = await self._answers_unknown(versions[0])
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
        )

    async def _supported(self) -> list[int]:
        """Return the versions that the agent supports, found by asking for each."""
        found: list[int] = []
        for version in VERSIONS:
            with tempfile.TemporaryDirectory(prefix="duologue-check-") as folder:
                run = AgentRun("versions", (), version, self._agent, Path(folder))
                try:
                    async with run.connect() as agent:
                        self._info = agent.result.get("agentInfo") or agent.result.get("info") or self._info
                        found.append(version)
                except (CaseSkipped, PeerFailed):
                    continue
        return found or [1]

    async def _answers_unknown(self, version: int) -> bool:
        """Return whether the agent answers requests of unknown methods; other cases need one that is answered."""
        with tempfile.TemporaryDirectory(prefix="duologue-check-") as folder:
            run = AgentRun("unknown-method", (), version, self._agent, Path(folder))
            try:
                async with run.connect() as agent:
                    try:
                        await agent.peer.barrier()
                    except PeerFailed:
                        return agent.peer.ended.is_set()
            except (CaseSkipped, PeerFailed):
                return True
        return True

    async def _run_cases(self, versions: Sequence[int]) -> list[CaseResult]:
        chosen = [
            (each, version)
            for version in versions
            for each in self._cases
            if version in each.versions and self._selection.wants(each.rules)
        ]
        return list(await asyncio.gather(*(self._run_case(each, version) for each, version in chosen)))

    async def _run_case(self, case: CheckCase[AgentRun], version: int) -> CaseResult:
        async with self._slots.take() as slot:
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="duologue-check-") as folder:
                run = AgentRun(case.name, case.rules, version, self._agent, Path(folder), slot.release)
                errors = await run_case(case, run, self._agent.transport, self._agent.limit)
            result = make_result(case, run, "agent", self._selection, errors, run.stderr)
            result.seconds = round(time.monotonic() - began, 3)
            self._on_case(result)
            return result
