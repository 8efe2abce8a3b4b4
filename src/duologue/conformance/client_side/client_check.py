"""Check a client: play an agent for it, once for each case, and combine what the cases found."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from duologue.conformance.case import CheckCase
from duologue.conformance.case_runner import CASE_FACTOR, make_result, run_case
from duologue.conformance.client_cases.table import CASES
from duologue.conformance.client_side.checked_client import ANSWER_SECONDS, USER_SECONDS, ClientCaseRun, ClientFacts
from duologue.conformance.client_side.client_start import ClientStart
from duologue.conformance.client_side.endpoints import Endpoint, StdioEndpoint
from duologue.conformance.client_side.shared_connection import SharedConnection
from duologue.conformance.raw_peer import Json
from duologue.conformance.report import Report
from duologue.conformance.rule_selection import RuleSelection
from duologue.conformance.verdicts import CaseResult, RuleVerdict, combine
from duologue.conformance.wait_limit import WaitLimit

SECONDS = 30.0
"""Limit of any single wait for the client."""

UrlScheme: TypeAlias = Literal["ws", "http"]
_Numbered: TypeAlias = tuple[int, CheckCase[ClientCaseRun]]


class ClientCheck:
    """Runs the cases with one client.

    Args:
        client: How the client is started.
        target: What the report calls it.
        selection: The rules to judge.
        versions: Versions of the protocol to play.
        url: Serve the agent at a URL of this scheme, instead of as a command.
        limit: Seconds that any single wait for the client may take. A case that had to wait longer is repeated at the
            end, alone and with three times the limit, because the machine may have been busy: the second run decides.
        jobs: Cases at the same time.
        on_case: Called with each result as it is there.
        on_address: Called with the endpoint that a person gives to the client.
        cases: The cases.
    """

    def __init__(
        self,
        client: ClientStart,
        target: str = "",
        *,
        selection: RuleSelection | None = None,
        versions: Sequence[int] = (1, 2),
        url: UrlScheme | None = None,
        limit: float = SECONDS,
        jobs: int = 1,
        on_case: Callable[[CaseResult], None] = lambda _: None,
        on_address: Callable[[Endpoint], None] = lambda _: None,
        cases: Sequence[CheckCase[ClientCaseRun]] = CASES,
    ) -> None:
        self._client = client
        self._target = target
        self._selection = selection or RuleSelection()
        self._versions = tuple(versions)
        self._url: UrlScheme | None = url
        self._limit = limit
        self._jobs = asyncio.Semaphore(max(1, jobs))
        self._on_case = on_case
        self._on_address = on_address
        self._cases = cases
        self._facts = {version: ClientFacts() for version in self._versions}
        self._results: dict[tuple[int, int], CaseResult] = {}
        self._began = time.monotonic()
        self._started = datetime.now(UTC)

    async def run(self) -> Report:
        """Run the cases and return the report.

        Raises:
            StartError: The client cannot be started.
        """
        if self._client.is_interactive:
            await self._run_interactively()
        else:
            for version in self._versions:
                await self._run_version(version)
        return self.report()

    def report(self) -> Report:
        """Return the report of the cases that have run so far."""
        rules = self._selection.rules("client")
        results = [self._results[key] for key in sorted(self._results)]
        info: Json = next((facts.info for facts in self._facts.values() if facts.info), Json())
        return Report(
            side="client",
            target=self._target,
            info=info,
            transport="stdio" if self._url is None else self._url,
            versions=self._versions,
            rule_set=self._selection.rule_set,
            started=self._started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - self._began, 3),
            results=[each for version in self._versions for each in combine(rules, version, results)],
            cases=results,
            problem=self._problem(results),
        )

    def _problem(self, results: Sequence[CaseResult]) -> str:
        """Say why the client could not be checked at all; empty if it sent something, or no case has ended."""
        if any(frame.entry.dir == "to_agent" for result in results for frame in result.wire):
            return ""
        return next((facts.problem for facts in self._facts.values() if facts.problem), "")

    def _wanted(self, version: int) -> list[_Numbered]:
        """Return the cases to run; the first one is always among them, because it finds out about the client."""
        numbered = [(number, case) for number, case in enumerate(self._cases) if version in case.versions]
        return numbered[:1] + [each for each in numbered[1:] if self._selection.wants_case(each[1], "client")]

    async def _run_version(self, version: int) -> None:
        first, *others = self._wanted(version)
        await self._run_separately(first, version)
        if self._has_timed_out(first, version):  # before the others, which depend on what it finds out
            self._facts[version] = ClientFacts()
            await self._run_separately(first, version, is_repeated=True)
        async with asyncio.TaskGroup() as group:
            for each in others:
                group.create_task(self._run_separately(each, version))
        for each in others:
            if self._has_timed_out(each, version):
                await self._run_separately(each, version, is_repeated=True)

    def _has_timed_out(self, numbered: _Numbered, version: int) -> bool:
        return self._results[(version, numbered[0])].has_timed_out

    async def _run_separately(self, numbered: _Numbered, version: int, *, is_repeated: bool = False) -> None:
        """Run a case with an endpoint of its own."""
        limit = WaitLimit(self._limit, is_repeated=is_repeated)
        async with self._jobs:
            with tempfile.TemporaryDirectory(prefix="duologue-check-") as folder:
                (Path(folder) / "project").mkdir()
                async with self._endpoint(Path(folder)) as endpoint:
                    result = await self._run_case(numbered, version, endpoint, Path(folder) / "project", limit)
        result.is_repeated = is_repeated
        if is_repeated or not result.has_timed_out:
            self._on_case(result)

    async def _run_interactively(self) -> None:
        """Run one case after the other at the same address, which the person has given to the client."""
        shared = SharedConnection()
        with tempfile.TemporaryDirectory(prefix="duologue-check-") as folder:
            async with self._endpoint(Path(folder)) as endpoint:
                self._on_address(endpoint)
                try:
                    for version in self._versions:
                        for each in self._wanted(version):
                            limit = WaitLimit(max(self._limit, ANSWER_SECONDS))
                            self._on_case(await self._run_case(each, version, endpoint, Path(folder), limit, shared))
                finally:
                    await shared.aclose()

    @contextlib.asynccontextmanager
    async def _endpoint(self, directory: Path) -> AsyncGenerator[Endpoint]:
        if self._url is None:
            async with StdioEndpoint(directory) as stdio:
                yield stdio
            return
        from duologue.conformance.client_side.server_endpoint import ServerEndpoint  # needs what only servers need

        async with ServerEndpoint(self._url) as server:
            yield server

    async def _run_case(
        self,
        numbered: _Numbered,
        version: int,
        endpoint: Endpoint,
        directory: Path,
        limit: WaitLimit,
        shared: SharedConnection | None = None,
    ) -> CaseResult:
        began, facts, (number, case) = time.monotonic(), self._facts[version], numbered
        run = ClientCaseRun(
            case.name,
            case.rules,
            version,
            start=self._client,
            endpoint=endpoint,
            directory=directory,
            limit=limit,
            facts=facts,
            shared=shared,
        )
        errors: list[str] = []
        if facts.problem:
            run.conclude(RuleVerdict.NOT_OBSERVED if facts.is_supported else RuleVerdict.SKIPPED, facts.problem)
        else:
            longest = None if shared is None else CASE_FACTOR * USER_SECONDS
            errors = await run_case(case, run, endpoint.transport, longest)
        result = make_result(case, run, "client", self._selection, errors, run.stderr)
        result.seconds = round(time.monotonic() - began, 3)
        self._results[(version, number)] = result
        return result
