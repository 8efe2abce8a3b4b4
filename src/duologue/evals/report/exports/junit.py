"""Write runs as JUnit XML: a test suite for each agent, a test case for each trial."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from duologue.evals.report import phrases
from duologue.evals.report.run_summary import AgentSummary, CaseSummary, RunSummary, label_agents
from duologue.evals.report.trial_summary import TrialSummary
from duologue.markup import xml_text

MOST_CHARACTERS = 20_000
"""Characters of the reasons of a failure."""


def to_junit(runs: Sequence[RunSummary]) -> str:
    """Return runs as JUnit XML.

    A trial that did not pass is a failure. One that is missing is skipped, with its reason; so is one that failed in a
    case in quarantine.
    """
    root = ET.Element("testsuites", name=xml_text(", ".join(dict.fromkeys(run.manifest.suite for run in runs))))
    totals = [_add_agent(root, run, agent) for run, agent in label_agents(runs)]
    root.set("tests", str(sum(tests for tests, _, _ in totals)))
    root.set("failures", str(sum(failures for _, failures, _ in totals)))
    root.set("errors", "0")
    root.set("time", f"{sum(seconds for _, _, seconds in totals):.3f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add_agent(root: ET.Element, run: RunSummary, agent: AgentSummary) -> tuple[int, int, float]:
    """Add an agent; return the number of its trials, how many failed, and their seconds."""
    suite = ET.SubElement(root, "testsuite", name=xml_text(agent.label))
    is_single = run.manifest.trials == 1
    kinds = [_add_trial(suite, run, agent, case, trial, is_single) for case in agent.cases for trial in case.trials]
    seconds = sum(trial.metrics.seconds or 0.0 for trial in agent.trials())
    for name, value in {
        "tests": len(kinds),
        "failures": kinds.count("failure"),
        "errors": 0,
        "skipped": kinds.count("skipped"),
        "time": f"{seconds:.3f}",
        "timestamp": xml_text(run.manifest.started.partition("+")[0].removesuffix("Z")),
    }.items():
        suite.set(name, str(value))
    return len(kinds), kinds.count("failure"), seconds


def _add_trial(
    suite: ET.Element, run: RunSummary, agent: AgentSummary, case: CaseSummary, trial: TrialSummary, is_single: bool
) -> str:
    """Add a trial; return its kind: `passed`, `failure` or `skipped`."""
    name = trial.case if is_single else f"{trial.case}[{trial.trial}]"
    test = ET.SubElement(
        suite,
        "testcase",
        classname=xml_text(f"{run.manifest.suite}.{agent.label}"),
        name=xml_text(name),
        time=f"{trial.metrics.seconds or 0.0:.3f}",
    )
    if trial.missing is not None:
        ET.SubElement(test, "skipped", message=xml_text(f"missing: {phrases.missing_line(agent.label, trial)}"[:2000]))
        return "skipped"
    if trial.passed:
        return "passed"
    failed = [grade for grade in trial.grades if not grade.passed]
    message = f"score {phrases.number(trial.score)}: " + ", ".join(grade.name for grade in failed)
    if case.quarantine:
        ET.SubElement(test, "skipped", message=xml_text(f"quarantine: {case.quarantine}; {message}"[:2000]))
        return "skipped"
    failure = ET.SubElement(test, "failure", message=xml_text(message[:2000]), type=xml_text(str(trial.outcome)))
    reasons = "\n".join(f"{grade.name}: {grade.reasoning}" for grade in failed)
    failure.text = xml_text(f"{reasons[:MOST_CHARACTERS]}\nrecord: {run.path}/{trial.directory}")
    return "failure"
