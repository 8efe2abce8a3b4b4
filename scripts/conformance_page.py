"""Write `docs/project/conformance.md`: what `duologue check` finds in agents on the SDKs of the protocol.

python -m scripts.conformance_page [NAME...]

With names, only these agents are run and the page is printed instead of written. The exit code is 1 if an agent has a
finding without an explanation or that cannot be reproduced, or an explanation belongs to no finding.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from duologue import __version__
from duologue.conformance.agent_check import AgentCheck
from duologue.conformance.baseline import Baseline
from duologue.conformance.profile import read_profile
from duologue.conformance.report import Report
from duologue.conformance.reports.document import ReportDocument, ReportedRule, make_document
from duologue.conformance.verdicts import RuleVerdict
from scripts.finding_replay import DIRECTORY, is_reproduced, replay
from tests.interop.conformance.agents import AGENTS, SUITE, SdkAgent
from tests.interop.peers import Absent, release

PAGE = Path(__file__).parents[1] / "docs/project/conformance.md"
OWN = [sys.executable, "-m", "duologue", "agent", "--v2"]
LONGEST_FRAME, LONGEST_SENT = 230, 2000
MOST_FRAMES = 5
REPLAYS_AT_ONCE = 3
NOT_REPRODUCED = "(the finding did not show in this run)"
OF_THE_END = (183, 184)
"""Rules about what an agent does when its stdin ends."""
REPLAYED = re.compile(r"/[^\s\"]*/replay-\w+")
OF_SDK, OF_PROGRAM = "SDK: ", "program: "
"""Beginnings of the reasons in baselines, which say what a finding is due to."""
HEAD = """# Conformance of other implementations

`make conformance` runs [`duologue check agent`](../how-to/check-your-agent.md) against agents on the SDKs of the
protocol and writes this page. Some are the examples that the SDKs publish to their registries, the others small agents
that the interop suite of this project has for each SDK. Every finding is due to one of two:

- **the SDK**: every agent on it does the same, unless its author prevents it;
- **the program**: the author of the agent could have done otherwise. The agents of the interop suite check little and
  ignore capabilities on purpose, so that clients of every kind can be tried with them.

The interop suite fails if a check finds anything that is not listed here, or no longer finds what is.

Every finding was tried without the checker when this page was written: in a checkout of this project, the command
after `$` starts the agent, the lines after `→` were written to its stdin, each after the answers above it, and those
after `←` are what it wrote to stdout. Type or paste them to do the same by hand; ids of sessions are made up by the
agent, `/project` is any directory with a file `notes.txt`, and long lines of the agent are cut. The last line says so
if the finding did not show that time.
"""
PROGRAMS = """An SDK alone stands for the agent of the interop suite on it.
"""


@dataclass(frozen=True)
class CheckedRow:
    """One agent with its report, or the reason why there is none."""

    sdk: str
    program: str
    document: ReportDocument | None
    known: Baseline
    absence: str = ""
    name: str = ""
    replays: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])

    def failures(self) -> list[tuple[ReportedRule, str]]:
        """Return the rules that fail, each with its explanation."""
        rows = self.document.rules if self.document is not None else []
        return [(each, self._reason(each)) for each in rows if each.verdict is RuleVerdict.FAIL]

    def _reason(self, rule: ReportedRule) -> str:
        found = [each for each in self.known.known if each.rule == rule.number and each.version in (None, rule.version)]
        return found[0].reason if found else ""


async def _check_own() -> CheckedRow:
    report = await AgentCheck(OWN, profile=read_profile("builtin")).run()
    return CheckedRow(f"duologue {__version__}", "`duologue agent`", make_document(report), Baseline())


async def _check(agent: SdkAgent, done: set[tuple[int, str]]) -> CheckedRow:
    """Check an agent, and reproduce the findings that are not done yet."""
    sdk, program = f"{agent.sdk.partition('-')[0]} {release(agent.sdk)}", agent.program
    try:
        report = await agent.check()
    except Absent as reason:
        return CheckedRow(sdk, program, None, agent.known, str(reason), agent.name)
    row = CheckedRow(sdk, program, make_document(report), agent.known, name=agent.name)
    new = {(rule.number, reason): rule for rule, reason in row.failures() if (rule.number, reason) not in done}
    done.update(new)
    at_once = asyncio.Semaphore(REPLAYS_AT_ONCE)

    async def reproduce(rule: ReportedRule) -> None:
        async with at_once:
            row.replays[rule.number, rule.version] = await _reproduce(agent, report, rule)

    await asyncio.gather(*(reproduce(rule) for rule in new.values()))
    return row


async def _reproduce(agent: SdkAgent, report: Report, rule: ReportedRule) -> str:
    """Return the lines of a reproduction of a finding."""
    finding = next((each for each in rule.findings if each.frames), rule.findings[0])
    case = next(each for each in report.cases if (each.case, each.version) == (finding.case, rule.version))
    last = max(finding.frames, default=len(case.wire))
    connection = case.wire[last - 1].connection
    wire = [each for each in case.wire[:last] if each.connection == connection]
    process = agent.start()
    made = await replay(process.command, process.variables, wire, ends_input=rule.number in OF_THE_END)
    lines = [f"{'→' if to == 'agent' else '←'} {_short(text, to)}" for to, text in _shown(made.lines)]
    if made.is_running_without_input:
        lines.append("(its stdin ends, and it goes on)")
    elif made.exit_code is not None:
        lines.append(f"(it ends with the exit code {made.exit_code})")
    elif made.lines[-1][0] == "agent":
        lines.append("(nothing)")
    if not is_reproduced(made, wire, finding.frames):
        lines.append(NOT_REPRODUCED)
    return "\n".join([f"$ python -m scripts.sdk_agent {agent.name}", *lines])


def _shown(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return lines without most of the agent's between two that were sent to it."""
    shown: list[tuple[str, str]] = []
    for to, group in itertools.groupby(lines, key=lambda each: each[0]):
        several = list(group)
        cut = to == "client" and len(several) > MOST_FRAMES
        shown += [*several[:2], (to, f"({len(several) - 4} more)"), *several[-2:]] if cut else several
    return shown


def _overview(rows: list[CheckedRow]) -> str:
    lines = [
        "| SDK | agent | version | passed | findings: SDK | findings: program | skipped | not observed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row.document is None:
            lines.append(f"| {row.sdk} | {row.program} | | not run: {row.absence} | | | | |")
            continue
        of_sdk = sum(reason.startswith(OF_SDK) for _, reason in row.failures())
        versions = ", ".join(map(str, row.document.versions))
        passed, skipped, unseen = (row.document.summary.get(each, 0) for each in ("PASS", "SKIPPED", "NOT OBSERVED"))
        cells = (row.sdk, row.program, versions, passed, of_sdk, len(row.failures()) - of_sdk, skipped, unseen)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _by_rule(rows: list[CheckedRow], *, of_sdk: bool) -> dict[int, list[tuple[CheckedRow, ReportedRule, str]]]:
    found: dict[int, list[tuple[CheckedRow, ReportedRule, str]]] = {}
    for row in rows:
        for rule, reason in row.failures():
            if reason.startswith(OF_SDK) == of_sdk:
                found.setdefault(rule.number, []).append((row, rule, reason))
    return dict(sorted(found.items()))


def _sdk_findings(rows: list[CheckedRow]) -> str:
    parts: list[str] = []
    for number, found in _by_rule(rows, of_sdk=True).items():
        rule = found[0][1]
        parts.append(f"### {number} {rule.name} ({rule.level})\n\n{rule.text}\n")
        by_reason: dict[str, list[tuple[CheckedRow, ReportedRule]]] = {}
        for row, each, reason in found:
            by_reason.setdefault(reason.removeprefix(OF_SDK), []).append((row, each))
        for reason, agents in by_reason.items():
            names = ", ".join(dict.fromkeys(row.sdk for row, _ in agents))
            parts.append(f"**{names}**: {reason}\n\n```\n{_replayed(agents)}\n```\n")
    return "\n".join(parts)


def _replayed(agents: list[tuple[CheckedRow, ReportedRule]]) -> str:
    return next(
        row.replays[rule.number, rule.version] for row, rule in agents if (rule.number, rule.version) in row.replays
    )


def _short(text: str, to: str) -> str:
    """Return a line with names for directories; lines to the agent stay whole, so that they can be pasted."""
    text = REPLAYED.sub("/project", DIRECTORY.sub("/project", text)).replace(sys.executable, "python")
    longest = LONGEST_SENT if to == "agent" else LONGEST_FRAME
    return text if len(text) <= longest else f"{text[:longest]}…"


def _program_findings(rows: list[CheckedRow]) -> str:
    lines = ["| rule | level | agents | why |", "|---|---|---|---|"]
    for number, found in _by_rule(rows, of_sdk=False).items():
        rule = found[0][1]
        by_reason: dict[str, list[str]] = {}
        for row, _, reason in found:
            name = row.sdk if row.program == SUITE else f"{row.program.partition(' ')[0]} of {row.sdk}"
            by_reason.setdefault(reason.removeprefix(OF_PROGRAM), []).append(name)
        for reason, agents in by_reason.items():
            names = ", ".join(dict.fromkeys(agents))
            lines.append(f"| {number} {rule.name} | {rule.level} | {names} | {reason or '**not explained**'} |")
    return "\n".join(lines)


def _program_replays(rows: list[CheckedRow]) -> str:
    parts: list[str] = []
    for number, found in _by_rule(rows, of_sdk=False).items():
        by_reason: dict[str, list[tuple[CheckedRow, ReportedRule]]] = {}
        for row, rule, reason in found:
            by_reason.setdefault(reason.removeprefix(OF_PROGRAM), []).append((row, rule))
        for reason, agents in by_reason.items():
            parts.append(f"**{number} {found[0][1].name}**: {reason}\n\n```\n{_replayed(agents)}\n```\n")
    return "\n".join(parts)


def page(rows: list[CheckedRow]) -> str:
    """Return the page."""
    date = datetime.now(UTC).date().isoformat()
    rule_set = next((row.document.rule_set for row in rows if row.document is not None), "")
    return (
        f"{HEAD}\nWritten on {date} by duologue {__version__} with the rules of the set `{rule_set}`.\n\n"
        f"## Agents\n\nNumbers of rules by verdict, both versions of the protocol added up.\n\n{_overview(rows)}\n\n"
        f"## Findings due to SDKs\n\n{_sdk_findings(rows)}\n"
        f"## Findings due to programs\n\n{PROGRAMS}\n{_program_findings(rows)}\n\n"
        f"{_program_replays(rows)}"
    )


async def _rows(names: list[str]) -> list[CheckedRow]:
    rows = [] if names else [await _check_own()]
    done = set[tuple[int, str]]()
    for agent in AGENTS:
        if not names or agent.name in names:
            print(agent.name, file=sys.stderr, flush=True)
            rows.append(await _check(agent, done))
    return rows


def main() -> int:
    """Run the agents and write the page; return the exit code."""
    names = sys.argv[1:]
    rows = asyncio.run(_rows(names))
    text = page(rows)
    if names:
        print(text)
    else:
        PAGE.write_text(text, "utf-8")
    new = [f"{row.sdk} ({row.program}): rule {rule.number}" for row in rows for rule, why in row.failures() if not why]
    for each in new:
        print(f"not explained: {each}", file=sys.stderr)
    unseen = [
        f"{row.name}: rule {rule}" for row in rows for (rule, _), text in row.replays.items() if NOT_REPRODUCED in text
    ]
    for each in unseen:
        print(f"not reproduced: {each}", file=sys.stderr)
    stale = [] if names else _stale(rows)
    for each in stale:
        print(f"no longer found in any agent: {each}", file=sys.stderr)
    return 1 if new or unseen or stale else 0


def _stale(rows: list[CheckedRow]) -> list[str]:
    """Return the explanations that belong to no finding, unless an agent that has them could not be run."""
    used = {(rule.number, reason) for row in rows for rule, reason in row.failures()}
    absent = {(each.rule, each.reason) for row in rows if row.document is None for each in row.known.known}
    listed = {(each.rule, each.reason) for row in rows for each in row.known.known}
    return [f"rule {rule}: {reason}" for rule, reason in sorted(listed - used - absent)]


if __name__ == "__main__":
    sys.exit(main())
