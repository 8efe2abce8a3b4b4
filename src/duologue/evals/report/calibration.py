"""Compare the results of graders with labels of people: a sample to label, and how far both agree."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from duologue.evals.exceptions import EvalError, RecordError
from duologue.evals.record.trial_record import TrialRecord
from duologue.evals.record.versioned_file import read_bounded
from duologue.evals.report.run_summary import RunSummary
from duologue.evals.report.trial_summary import TrialSummary
from duologue.evals.statistics.agreement import ConfusionMatrix, confusion_matrix, krippendorff_alpha
from duologue.markup import markdown_text
from duologue.suggestion import suggestion

CALIBRATION_FORMAT = 1
MOST_OUTPUT = 2_000
"""Characters of an answer in a sample."""
PASS, FAIL = "pass", "fail"


class TrialLabel(Struct, frozen=True, kw_only=True):
    """A line of a file of labels: what a person says about a trial.

    Attributes:
        case: Id of the case.
        agent: Label of the agent.
        trial: Number of the trial.
        passed: Whether it should pass; `pass` in JSON. None if it has not been labelled.
        rater: Name of the person; several may label the same trial.
        output: The answer, for the person who labels it; it is not read.
        reasons: What the graders say; they are not read.
    """

    case: str
    agent: str
    trial: int
    passed: bool | None = field(name="pass", default=None)
    rater: str = ""
    output: str = ""
    reasons: list[str] = []


class Calibration(Struct, frozen=True, kw_only=True):
    """How far graders agree with people; `eval calibrate --json` prints it.

    Attributes:
        format: Version of the format.
        grader: The grader; empty for the result of all of them.
        labelled: Number of trials with a label that the graders decided about.
        undecided: Number of labelled trials that the graders did not decide about, or that are missing.
        unknown: Labels of trials that the run does not have.
        matrix: Labels of people (rows) and results of graders (columns); of several labels, the majority counts.
        tied: Number of trials whose labels have no majority; they are not in the matrix.
        alpha: Krippendorff's alpha of the graders and the people together; None if it is not defined.
        alpha_of_people: Krippendorff's alpha of the people alone; None for fewer than two.
        disagreements: The trials for which the graders and the people differ.
    """

    format: int = CALIBRATION_FORMAT
    grader: str
    labelled: int
    undecided: int
    unknown: int
    matrix: ConfusionMatrix
    tied: int
    alpha: float | None
    alpha_of_people: float | None
    disagreements: list[str]


def read_labels(path: Path) -> list[TrialLabel]:
    """Return the labels of a file.

    Raises:
        RecordError: It cannot be read, or a line is not a label.
    """
    decode = msgspec.json.Decoder(TrialLabel).decode
    labels: list[TrialLabel] = []
    for number, line in enumerate(read_bounded(path).splitlines(), 1):
        if line.strip():
            try:
                labels.append(decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise RecordError(
                    f"{path}, line {number} is no label such as "
                    f'{{"case": "a", "agent": "b", "trial": 1, "pass": true}}: {error}'
                ) from None
    return labels


def calibrate(run: RunSummary, labels: Sequence[TrialLabel], *, grader: str = "") -> Calibration:
    """Return how far the graders of a run agree with people.

    Args:
        run: The run.
        labels: The labels; those without `pass` are left out.
        grader: Name of a grader; empty: whether the trial passes.

    Raises:
        EvalError: No trial has a grade of this grader.
        ImportError: numpy or scipy is not installed.
    """
    _check_grader(run, grader)
    given = {key: _result(trial, grader) for key, trial in _by_key(run).items()}
    people: dict[tuple[str, str, int], dict[str, bool]] = {}
    for label in labels:
        if label.passed is not None:
            people.setdefault((label.case, label.agent, label.trial), {})[label.rater] = label.passed
    known = {key: votes for key, votes in people.items() if key in given}
    decided = {key: votes for key, votes in known.items() if given[key] is not None}
    majority = {key: _majority(votes) for key, votes in decided.items()}
    clear = {key: passed for key, passed in majority.items() if passed is not None}
    raters = sorted({rater for votes in decided.values() for rater in votes})
    rows = [[decided[key].get(rater) for key in decided] for rater in raters]
    return Calibration(
        grader=grader,
        labelled=len(decided),
        undecided=len(known) - len(decided),
        unknown=len(people) - len(known),
        matrix=confusion_matrix([_word(clear[key]) for key in clear], [_word(given[key] is True) for key in clear]),
        tied=len(decided) - len(clear),
        alpha=krippendorff_alpha([*rows, [given[key] for key in decided]]) if decided else None,
        alpha_of_people=krippendorff_alpha(rows) if len(raters) > 1 else None,
        disagreements=[
            f"{agent}, {case}, trial {trial}: people say {_word(clear[case, agent, trial])}"
            for case, agent, trial in clear
            if clear[case, agent, trial] is not given[case, agent, trial]
        ],
    )


def sample_to_label(run: RunSummary, size: int, *, seed: int = 0, grader: str = "") -> list[TrialLabel]:
    """Return trials to label: as many that pass as that fail, as far as there are so many, drawn by the seed.

    Args:
        run: The run.
        size: Number of trials, at least 1.
        seed: Seed of the draw.
        grader: Name of a grader; empty: whether the trial passes.

    Raises:
        EvalError: No trial has a grade of this grader, or no trial has a result.
        ValueError: The size is not positive.
    """
    if size < 1:
        raise ValueError(f"a sample has at least one trial, not {size}")
    _check_grader(run, grader)
    trials = [trial for trial in run.trials() if _result(trial, grader) is not None]
    if not trials:
        raise EvalError(f"no trial of {run.path} has a result, so that there is nothing to label")
    generator = random.Random(seed)
    passed = [trial for trial in trials if _result(trial, grader)]
    failed = [trial for trial in trials if not _result(trial, grader)]
    generator.shuffle(passed)
    generator.shuffle(failed)
    of_failed = min(len(failed), max(size - size // 2, size - len(passed)))
    chosen = [*failed[:of_failed], *passed[: size - of_failed]]
    chosen.sort(key=lambda trial: (trial.case, trial.agent, trial.trial))
    return [_to_label(run, trial) for trial in chosen]


def sample_markdown(labels: Sequence[TrialLabel]) -> str:
    """Return a sample as Markdown with boxes to check."""
    return "\n".join(["# Sample", "", *(line for label in labels for line in _sample_lines(label))])


def _sample_lines(label: TrialLabel) -> Iterator[str]:
    yield f"## {markdown_text(f'{label.agent}, {label.case}, trial {label.trial}')}"
    yield ""
    yield markdown_text(label.output, None)
    yield ""
    yield from (f"- {markdown_text(reason, None)}" for reason in label.reasons)
    yield ""
    yield "- [ ] the grader is right"
    yield "- [ ] the grader is wrong"
    yield "- [ ] the task is ambiguous"
    yield ""


def _to_label(run: RunSummary, trial: TrialSummary) -> TrialLabel:
    output = ""
    if trial.directory:
        output = TrialRecord(Path(run.path) / trial.directory).result().output[:MOST_OUTPUT]
    reasons = [
        f"{grade.name}: {_word(grade.passed is True)}: {grade.reasoning}"[:MOST_OUTPUT] for grade in trial.grades
    ]
    return TrialLabel(case=trial.case, agent=trial.agent, trial=trial.trial, output=output, reasons=reasons)


def _check_grader(run: RunSummary, grader: str) -> None:
    known = sorted({grade.name for trial in run.trials() for grade in trial.grades})
    if grader and grader not in known:
        listed = f"it has {', '.join(map(repr, known))}" if known else "none of its trials has been graded"
        raise EvalError(f"{run.path} has no grader {grader!r}: {listed}{suggestion(grader, known)}")


def _by_key(run: RunSummary) -> Mapping[tuple[str, str, int], TrialSummary]:
    return {(trial.case, trial.agent, trial.trial): trial for trial in run.trials()}


def _result(trial: TrialSummary, grader: str) -> bool | None:
    if not grader:
        return trial.passed
    return next((grade.passed for grade in trial.grades if grade.name == grader), None)


def _majority(votes: Mapping[str, bool]) -> bool | None:
    passed = sum(votes.values())
    return None if 2 * passed == len(votes) else 2 * passed > len(votes)


def _word(passed: bool) -> str:
    return PASS if passed else FAIL
