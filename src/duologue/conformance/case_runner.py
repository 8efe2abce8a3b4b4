"""Run one case, and make its result of what it judged and of what the passive rules find in its messages."""

from __future__ import annotations

import traceback
from typing import TypeVar

from duologue.conformance.case import CaseEnded, CaseRun, CaseSkipped, CaseTransport, CheckCase, NotProvoked
from duologue.conformance.passive import judge_passively
from duologue.conformance.raw_peer import PeerFailed
from duologue.conformance.rule_selection import RuleSelection
from duologue.conformance.verdicts import CaseResult, CheckedSide, RuleVerdict
from duologue.errors import StartError

CASE_FACTOR = 10
"""Times the limit of a single wait that a whole case may take."""

Run = TypeVar("Run", bound=CaseRun)


async def run_case(case: CheckCase[Run], run: Run, transport: CaseTransport, longest: float | None = None) -> list[str]:
    """Run a case so that each of its rules has a judgement; return what the checker did wrong.

    Args:
        case: The case.
        run: Collects what it finds.
        transport: How the peer is reached.
        longest: Seconds that the whole case may take, if it is not ten times the limit of a single wait.

    Raises:
        StartError: The peer cannot be started.
    """
    if transport not in case.transports:
        run.conclude(RuleVerdict.SKIPPED, f"the rule is not about {transport}")
        return []
    reason = "the case did not get that far"
    seconds = CASE_FACTOR * run.limit.seconds if longest is None else longest
    try:
        async with run.limit.bound(seconds):
            await case.run(run)
    except CaseEnded:
        pass
    except CaseSkipped as error:
        run.conclude(RuleVerdict.SKIPPED, str(error))
    except StartError:
        raise
    except (NotProvoked, PeerFailed) as error:
        reason = str(error)
    except TimeoutError:
        reason = f"the case took longer than {seconds:g} s"
    except Exception:
        return [traceback.format_exc(limit=-3)]
    run.conclude(RuleVerdict.NOT_OBSERVED, reason)
    return []


def make_result(
    case: CheckCase[Run], run: Run, side: CheckedSide, selection: RuleSelection, errors: list[str], stderr: str = ""
) -> CaseResult:
    """Return the result of a case that ran, with the judgements of the passive rules."""
    if case.is_passive:
        errors = [*errors, *judge_passively(run, side)]
    wanted = [each for each in run.judgements if selection.wants((each.rule,))]
    return CaseResult(
        case=case.name,
        version=run.version,
        title=case.title,
        judgements=wanted,
        wire=run.log.frames,
        stderr=stderr,
        harness_errors=errors,
        has_timed_out=run.limit.is_exceeded,
    )
