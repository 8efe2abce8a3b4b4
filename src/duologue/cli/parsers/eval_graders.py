"""Define the subcommands of `duologue eval` that grade, and that check graders, but not what they do."""

from __future__ import annotations

import argparse

from duologue.cli.options import count, seed

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_grading(subcommands: Commands) -> None:
    """Add `grade`, `calibrate` and `validate-refs`."""
    _add_grade(subcommands)
    _add_calibrate(subcommands)
    _add_validate_refs(subcommands)


def _add_grade(subcommands: Commands) -> None:
    grade = subcommands.add_parser(
        "grade",
        help="grade a finished run again, without running an agent",
        description="Grade the records of a run again and replace their grades: after a grader could not decide, or "
        "with the graders of a changed suite. No agent that was evaluated is started. The exit code is 1 if a grader "
        "could not decide.",
        epilog="examples: duologue eval grade runs/today; duologue eval grade runs/today --suite suite.toml -j 4",
    )
    grade.set_defaults(function="eval.grade:grade")
    grade.add_argument("run", metavar="DIRECTORY", help="directory of a run")
    grade.add_argument("--suite", metavar="SUITE", help="use the graders of this suite (default: those of the run)")
    grade.add_argument("-j", "--jobs", type=count, default=1, metavar="N", help="trials at the same time (default: 1)")
    grade.add_argument("--json", action="store_true", help="print what changed as one JSON object")


def _add_calibrate(subcommands: Commands) -> None:
    calibrate = subcommands.add_parser(
        "calibrate",
        help="compare graders with the labels of people",
        description="Without `--labels`, write a sample of trials, half of them failed, as JSON lines in which people "
        "fill in `pass`. With it, show how far the graders agree with them: a confusion matrix, the agreement with its "
        "interval, and Krippendorff's alpha.",
        epilog="examples: duologue eval calibrate runs/today --sample 20 -o labels.jsonl; "
        "duologue eval calibrate runs/today --labels labels.jsonl",
    )
    calibrate.set_defaults(function="eval.calibrate:calibrate")
    calibrate.add_argument("run", metavar="DIRECTORY", help="directory of a run")
    calibrate.add_argument("--labels", metavar="FILE", help="JSON lines with case, agent, trial, pass and rater")
    calibrate.add_argument(
        "--grader", default="", metavar="NAME", help="one grader (default: whether the trial passes)"
    )
    calibrate.add_argument(
        "-s", "--sample", type=count, default=10, metavar="N", help="size of the sample (default: 10)"
    )
    calibrate.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of the sample (default: 0)")
    calibrate.add_argument("-m", "--markdown", action="store_true", help="write the sample as Markdown with boxes")
    calibrate.add_argument("-o", "--output", metavar="FILE", help="write the sample to this file, for its owner only")
    calibrate.add_argument("--json", action="store_true", help="print the comparison as one JSON object")


def _add_validate_refs(subcommands: Commands) -> None:
    validate = subcommands.add_parser(
        "validate-refs",
        help="check that the references of a suite pass their own graders",
        description="Grade the `reference` and the `solution` of each case, in a workspace as a trial has it. A case "
        "with a solution must also fail without it. No agent is started. The exit code is 1 if a reference does not "
        "pass.",
        epilog="examples: duologue eval validate-refs suite.toml; "
        "duologue eval validate-refs prompts.jsonl --grader ./grade.py --json",
    )
    validate.set_defaults(function="eval.validate_refs:validate_refs")
    validate.add_argument("suite", metavar="SUITE", help="the suite: a .toml or .jsonl file, or a directory")
    validate.add_argument("-g", "--grader", metavar="COMMAND", help="grade with this program instead of the suite's")
    validate.add_argument("-o", "--output", metavar="FILE", help="write one JSON object per line to this file")
    validate.add_argument("--json", action="store_true", help="print one JSON object per line")
