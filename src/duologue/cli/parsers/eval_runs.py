"""Define the subcommands of `duologue eval` that run trials, but not what they do."""

from __future__ import annotations

import argparse
import re

from duologue.cli.options import add_repeatable, count, seed, whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

AGENT = "builtin, a name, a command in quotes, a URL or replay:FILE; LABEL=... gives it a label (default: builtin)"


def add_runs(subcommands: Commands) -> None:
    """Add the subcommands."""
    _add_run(subcommands)
    _add_capture(subcommands)
    _add_trials(subcommands)


def _add_run(subcommands: Commands) -> None:
    run = subcommands.add_parser(
        "run",
        usage="duologue eval run SUITE [OPTION ...] [-- COMMAND ...]",
        help="run the cases of a suite, several times each",
        description="Run the cases of a suite with one or several agents, each trial with directories of its own, and "
        "grade what they did. Everything is kept in a run directory. Trials that fail for reasons that are not the "
        "agent's are tried again, and are then missing, which is not the same as failed. Ctrl-C cancels the trials "
        "that run; `--resume DIR` goes on.",
        epilog="examples: duologue eval run suite.toml; "
        "duologue eval run suite.toml --agent gemini --agent claude -n 5 -j 4; "
        "duologue eval run suite.toml -n 20 --fail-under pass@1=0.8; "
        "duologue eval run suite.toml --resume runs/suite-1",
    )
    run.set_defaults(function="eval.run:run", agent=None, lock=None)
    run.add_argument("suite", metavar="SUITE", help="the suite: a .toml or .jsonl file, or a directory")
    add_agents_option(run)
    run.add_argument("-n", "--trials", type=count, metavar="N", help="trials of each case (default: the suite's)")
    run.add_argument(
        "-j", "--jobs", type=count, metavar="N", help="trials at the same time (default: 1; on a cluster, its slots)"
    )
    add_repeatable(run, "--case", "ID|TAG", "run only this case, or the cases with this tag")
    run.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of everything random (default: 0)")
    run.add_argument("-o", "--output", metavar="DIR", help="the new run directory (default: runs/SUITE-TIME)")
    run.add_argument("--resume", metavar="DIR", help="go on with this run: run the trials that have no record")
    run.add_argument(
        "--retry-missing", action="store_true", help="with --resume, run trials again that broke and are missing"
    )
    _add_engine(run)
    add_isolation(run)
    _add_attach(run)
    _add_limits(run)
    output = run.add_argument_group("output")
    add_repeatable(output, "--fail-under", "METRIC=VALUE", "exit with 12 if an agent is below, such as pass@1=0.8")
    output.add_argument("--json", action="store_true", help="print one JSON object per trial, and one for the run")
    output.add_argument("--quiet", action="store_true", help="show no progress")


def _add_limits(run: argparse.ArgumentParser) -> None:
    limits = run.add_argument_group("limits")
    limits.add_argument(
        "--budget",
        type=_money,
        metavar="MONEY",
        help="start no further trial when the agents have used so much, such as 5USD; they must report their cost",
    )
    limits.add_argument(
        "--time-limit", type=_duration, metavar="TIME", help="start no further trial after this time, such as 90s or 2h"
    )
    limits.add_argument("--prompt-limit", type=count, metavar="N", help="start no further trial after so many prompts")
    add_repeatable(limits, "--reports-cost", "LABEL", "this agent reports its cost, although that is not known yet")
    limits.add_argument(
        "--retries",
        type=whole_number,
        default=2,
        metavar="N",
        help="further attempts at a trial that broke (default: 2)",
    )


def _add_engine(run: argparse.ArgumentParser) -> None:
    engine = run.add_argument_group("engine")
    engine.add_argument(
        "--engine",
        default="local",
        metavar="ENGINE",
        help="where trials are run: local (this machine), dask://HOST[:PORT], dask+tls://HOST[:PORT] or "
        "ray://HOST[:PORT] (default: local)",
    )
    engine.add_argument(
        "--engine-token", metavar="FILE", help="file with the token of a Ray cluster (default: what Ray itself finds)"
    )
    engine.add_argument(
        "--engine-timeout",
        type=_duration,
        default=60.0,
        metavar="TIME",
        help="end the run when the cluster, or every worker of it, is gone for this time (default: 60s)",
    )


def _add_capture(subcommands: Commands) -> None:
    capture = subcommands.add_parser(
        "capture",
        usage="duologue eval capture PROMPTS [OPTION ...] [-- COMMAND ...]",
        help="send each prompt of a JSON lines file once, and write results as acp-harness does",
        description="Read prompts in the format of acp-harness (id, input, hint, reference, metadata, timeout), send "
        "each to an agent in a workspace of its own, and write one line of JSON for each: output, trajectory, timing "
        "and score.",
        epilog="example: duologue eval capture prompts.jsonl -o results.jsonl -- gemini --acp",
    )
    capture.set_defaults(function="eval.capture:capture", agent=None, lock=None)
    _add_harness_options(capture)


def _add_trials(subcommands: Commands) -> None:
    trials = subcommands.add_parser(
        "trials",
        usage="duologue eval trials PROMPTS [OPTION ...] [-- COMMAND ...]",
        help="send each prompt of a JSON lines file several times, and write results as acp-harness does",
        description="As `capture`, several times: one line of JSON for each prompt, with all its trials, and with a "
        "grader passRate, passAtK and passExpK. The last two are unbiased: of k trials, passAtK is 1 if one passes, "
        "and passExpK is 1 if all do.",
        epilog="example: duologue eval trials prompts.jsonl -k 5 -g ./grader.py -o trials.jsonl -- gemini --acp",
    )
    trials.set_defaults(function="eval.trials:trials", agent=None, lock=None)
    trials.add_argument("-k", type=count, default=5, metavar="N", help="trials of each prompt (default: 5)")
    _add_harness_options(trials)


def _add_harness_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompts", metavar="PROMPTS", help="the prompts, one JSON object per line; `-` is stdin")
    add_agents_option(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the lines to this file (default: stdout)")
    parser.add_argument(
        "--append", action="store_true", help="append to the file, and leave out prompts it has already"
    )
    parser.add_argument("-c", "--cwd", metavar="DIR", help="each trial works in a copy of this directory")
    parser.add_argument(
        "-t",
        "--timeout",
        type=count,
        default=60_000,
        metavar="MS",
        help="milliseconds for each prompt (default: 60000)",
    )
    parser.add_argument("-j", "--jobs", type=count, default=1, metavar="N", help="trials at the same time (default: 1)")
    parser.add_argument("-g", "--grader", metavar="PATH", help="executable with JSON on stdin and on stdout")
    parser.add_argument("--run", metavar="DIR", help="keep the records in this run directory")
    parser.add_argument("--progress", action="store_true", help="print a line for each trial on stderr")
    parser.add_argument("--on-ask", choices=("allow", "reject"), default="allow", help="answer to permission requests")
    add_isolation(parser)


def add_agents_option(parser: argparse.ArgumentParser) -> None:
    """Add `--agent`, which may be given several times."""
    parser.add_argument("--agent", dest="agents", action="append", default=[], metavar="AGENT", help=AGENT)


def _add_attach(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("watching")
    group.add_argument(
        "--attach",
        action="store_true",
        help="serve the trials that run on loopback, so that an ACP client can list and watch them; the URL with its "
        "token is printed once",
    )
    group.add_argument(
        "--attach-control",
        action="store_true",
        help="the same, and watchers may cancel and steer turns; a trial that was changed does not count",
    )


def add_isolation(parser: argparse.ArgumentParser) -> None:
    """Add the options for what an agent gets and may do."""
    group = parser.add_argument_group("isolation")
    group.add_argument(
        "--sandbox",
        choices=("auto", "bwrap", "none"),
        default="auto",
        help="confine agents with bubblewrap (bwrap) so that they write in their own directories only (default: auto, "
        "if it is installed)",
    )
    add_repeatable(group, "--env", "NAME", "give agents this environment variable; its value is never recorded")
    add_repeatable(
        group, "--credential", "FILE[:PATH]", "copy this file into the home directory of agents; it is never recorded"
    )
    group.add_argument("--login", metavar="METHOD", help="log in by this method of the agent, if it requires that")
    group.add_argument("--v2", action="store_true", help="offer version 2 of the protocol (a draft), too")


def _money(text: str) -> tuple[float, str]:
    found = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*([A-Za-z]{3})?", text.strip())
    if found is None or float(found[1]) <= 0:
        raise argparse.ArgumentTypeError(f"expected an amount such as 5USD, not {text!r}")
    return float(found[1]), (found[2] or "USD").upper()


def _duration(text: str) -> float:
    units = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
    found = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*(s|m|min|h)?", text.strip())
    if found is None or float(found[1]) <= 0:
        raise argparse.ArgumentTypeError(f"expected a time such as 90s, 30m or 2h, not {text!r}")
    return float(found[1]) * units[found[2] or ""]
