"""Show one trial on the page: its grades, its steps, what it changed, and its messages, each up to a limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET

from duologue.evals.exceptions import RecordError
from duologue.evals.record.result import Grade, TrialMetrics
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.record.trial_record import TrialRecord
from duologue.evals.record.versioned_file import read_beginning
from duologue.evals.report import phrases
from duologue.evals.report.trial_summary import TrialSummary
from duologue.markup import html_text
from duologue.recording.format import Entry
from duologue.recording.reader import RecordingReader
from duologue.usage.amounts import Provenance

MOST_STEP_CHARACTERS = 2000
MOST_FRAME_CHARACTERS = 1000
MOST_REASON_CHARACTERS = 2000
MOST_GRADES = 50
"""Graders of a trial that are shown."""
PROVENANCE: dict[Provenance, str] = {
    "reported_per_turn": "per turn",
    "cumulative": "cumulative",
    "derived": "derived from others",
    "partial": "partial: a lower bound",
    "undecided": "undecided: per turn or cumulative",
    "not_reported": "not reported",
}
MOST_NAMES = 50
"""Files and processes of a trial that are shown."""
MOST_NAME_CHARACTERS = 200


def trial_details(anchor: str, trial: TrialSummary, run: Path, most: int) -> list[str]:
    """Return a trial as pieces of HTML.

    Args:
        anchor: Id of its element.
        trial: The trial.
        run: Directory of its run.
        most: Characters of steps, changes and messages that are shown.
    """
    tone = "none" if trial.missing else "pass" if trial.passed else "fail"
    result = "missing" if trial.missing else "passed" if trial.passed else "failed"
    facts = [f"score {phrases.number(trial.score)}" if trial.score is not None else ""]
    facts += [str(trial.outcome or ""), trial.reason, *_figures(trial)]
    about = html_text(", ".join(filter(None, facts)))
    parts = [
        f'<details><summary><span class="{tone}">trial {trial.trial} {result}</span>',
        f'<span class="dim">{about}</span></summary><div id="{anchor}">',
    ]
    if trial.missing:
        parts.append(f'<p class="mixed">{html_text(f"{trial.missing}: the trial {_because(trial)}")}</p>')
    if trial.detail:
        parts.append(f"<pre>{_cut(trial.detail, MOST_REASON_CHARACTERS)}</pre>")
    if measures := ", ".join(filter(None, _measures(trial.metrics))):
        parts.append(f'<p class="facts">{_cut(measures, MOST_REASON_CHARACTERS)}</p>')
    parts += [_grade(grade) for grade in trial.grades[:MOST_GRADES]]
    if trial.directory and most > 0:
        record = TrialRecord(run / trial.directory)
        parts += _section("Steps", _steps(record, most // 2))
        parts += _section("Changes", _patch(record, most // 4))
        parts += _section("Messages on the wire", _wire(record, most // 4))
        parts += _section("Files written outside of the workspace", _names(trial.writes))
        parts += _section("Processes left behind, and ended", _names(trial.left_processes))
        parts.append(f'<p class="dim facts">Record: <code>{html_text(str(record.directory))}</code></p>')
    return [*parts, "</div></details>"]


def _because(trial: TrialSummary) -> str:
    reason = phrases.meaning(str(trial.missing))
    return reason if trial.missing != trial.outcome else f"does not count, since {reason}"


def _figures(trial: TrialSummary) -> list[str]:
    metrics = trial.metrics
    calls = sum(metrics.tool_calls.values())
    return [
        f"{metrics.seconds:.3g} s" if metrics.seconds is not None else "",
        phrases.count(calls, "tool call") if calls else "",
        metrics.usage.text,
        phrases.count(trial.attempts, "attempt") if trial.attempts > 1 else "",
    ]


def _measures(metrics: TrialMetrics) -> list[str]:
    """Return the figures of a trial that ran, those that the agent did not report included."""
    if not metrics.prompts:
        return []
    kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(metrics.tool_calls.items()))
    failed, repeated, compactions = metrics.failed_tool_calls, metrics.repeated_tool_calls, metrics.compactions
    asked, denied = metrics.permissions_asked, metrics.permissions_denied
    return [
        f"first update after {metrics.first_update:.3g} s" if metrics.first_update is not None else "no update",
        f"{metrics.tool_seconds:.3g} s in tools",
        f"{metrics.permission_seconds:.3g} s waiting for permission",
        f"tool calls: {kinds}" if kinds else "no tool calls",
        f"{failed} of them failed" if failed else "",
        f"{repeated} repeated" if repeated else "",
        f"{phrases.count(asked, 'permission request')}, {denied} denied" if asked else "",
        f"tokens {PROVENANCE[metrics.usage.provenance]}",
        "cost cumulative" if metrics.usage.cost is not None else "cost not reported",
        f"context peak {metrics.context_peak:,} tokens" if metrics.context_peak is not None else "",
        phrases.count(compactions, "compaction") if compactions else "",
    ]


def _grade(grade: Grade) -> str:
    tone = "none" if grade.passed is None else "pass" if grade.passed else "fail"
    word = {None: "could not decide", True: "passed", False: "failed"}[grade.passed]
    score = f", score {grade.score:.3f}" if grade.score is not None else ""
    reason = grade.error or grade.reasoning
    shown = f"<pre>{_cut(reason, MOST_REASON_CHARACTERS)}</pre>" if reason else ""
    optional = "" if grade.required else ", not required"
    name = html_text(grade.name[:200])
    return f'<p>Grader <strong>{name}</strong>: <span class="{tone}">{word}</span>{score}{optional}</p>{shown}'


def _section(title: str, content: list[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", *content, "</details>"] if content else []


def _names(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    shown = [_cut(name, MOST_NAME_CHARACTERS) for name in names[:MOST_NAMES]]
    more = len(names) - len(shown)
    rest = [f'<p class="dim">{more:,} more are in result.json of the record.</p>'] if more else []
    listed = "\n".join(shown)
    return [f"<pre>{listed}</pre>", *rest]


def _steps(record: TrialRecord, most: int) -> list[str]:
    parts: list[str] = []
    try:
        for step in record.trajectory():
            shown = _step(step)
            most -= len(shown)
            if most < 0:
                parts.append('<p class="dim">More steps are in trajectory.jsonl of the record.</p>')
                break
            parts.append(shown)
    except (RecordError, OSError) as error:
        parts.append(f'<p class="fail">{html_text(str(error))}</p>')
    return parts


def _step(step: TrajectoryStep) -> str:
    words = [step.type.replace("_", " "), step.kind, step.status, f"{step.t:.3f} s"]
    name = f" <strong>{_cut(step.name, 300)}</strong>" if step.name else ""
    texts = [step.command, ", ".join(step.paths), step.text]
    if step.input is not UNSET and not step.command:
        texts.append(msgspec.json.encode(step.input).decode("utf-8", "replace"))
    bodies = "".join(f"<pre>{_cut(text, MOST_STEP_CHARACTERS)}</pre>" for text in texts if text)
    head = html_text(", ".join(filter(None, words)))
    return f'<div class="step {step.type}"><span class="dim">{step.number} {head}</span>{name}{bodies}</div>'


def _patch(record: TrialRecord, most: int) -> list[str]:
    if not record.patch_file.exists():
        return []
    try:
        text = read_beginning(record.patch_file, most + 1).decode("utf-8", "replace")
    except RecordError as error:
        return [f'<p class="fail">{html_text(str(error))}</p>']
    if not text:
        return ['<p class="dim">Nothing was changed.</p>']
    lines = text[:most].splitlines()
    more = ['<p class="dim">The rest is in workspace.patch of the record.</p>'] if len(text) > most else []
    return [f"<pre>{''.join(_patch_line(line) for line in lines)}</pre>", *more]


def _patch_line(line: str) -> str:
    is_head = line.startswith(("+++", "---"))
    kind = "add" if line.startswith("+") and not is_head else "cut" if line.startswith("-") and not is_head else "same"
    return f'<span class="{kind}">{html_text(line)}</span>'


def _wire(record: TrialRecord, most: int) -> list[str]:
    if not record.wire_file.is_file():
        return []
    parts: list[str] = []
    try:
        with RecordingReader(record.wire_file) as reader:
            for number, entry in enumerate(_entries(reader), 1):
                shown = _frame(number, entry)
                most -= len(shown)
                if most < 0:
                    parts.append('<p class="dim">More messages are in wire.acp of the record.</p>')
                    break
                parts.append(shown)
    except (ValueError, OSError) as error:
        parts.append(f'<p class="fail">{html_text(str(error))}</p>')
    return parts


def _entries(reader: RecordingReader) -> Iterator[Entry]:
    yield from reader


def _frame(number: int, entry: Entry) -> str:
    if entry.stderr is not None:
        head, text, tone = "stderr", entry.stderr, ""
    elif entry.exit_code is not None:
        head, text, tone = "exit", f"exit code {entry.exit_code}", ""
    elif entry.gap:
        head, text, tone = "gap", f"{entry.gap} frames are missing", ""
    else:
        frame = entry.text or "" if entry.frame is UNSET else bytes(entry.frame).decode("utf-8", "replace")
        to = "agent" if entry.dir == "to_agent" else "client"
        head, text, tone = f"to the {to}", frame, f' class="to-{to}"'
    label = html_text(f"{number} {entry.t:.3f} s {head}")
    return f'<pre{tone}><span class="dim">{label}</span>\n{_cut(text, MOST_FRAME_CHARACTERS)}</pre>'


def _cut(text: str, most: int) -> str:
    """Return text as HTML, cut after so many characters."""
    return html_text(text) if len(text) <= most else f"{html_text(text[:most])}… ({len(text):,} characters)"
