"""`duologue check`: check agents and clients against the rules of the protocol."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from duologue.cli.arguments import parse_key_values
from duologue.cli.check_report import CheckProgress, write_report, write_rules
from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.cli.targets import target_of
from duologue.conformance.agent_check import SECONDS, AgentCheck
from duologue.conformance.baseline import Baseline, apply_baseline, baseline_of, read_baseline
from duologue.conformance.client_side.client_check import ClientCheck
from duologue.conformance.client_side.client_start import AGENT_WORD, ClientCommand, InteractiveClient
from duologue.conformance.client_side.endpoints import Endpoint
from duologue.conformance.profile import DEFAULT, Profile, read_profile
from duologue.conformance.report import Report
from duologue.conformance.reports.document import ReportDocument, make_document
from duologue.conformance.reports.html import to_html
from duologue.conformance.reports.json_report import to_json
from duologue.conformance.reports.junit import to_junit
from duologue.conformance.reports.markdown import to_markdown
from duologue.conformance.reports.sarif import to_sarif
from duologue.conformance.rule_selection import RuleSelection

VERSIONS = (1, 2)
FILES = ("junit", "sarif", "markdown", "html", "write_baseline")
"""Options that name a file to write."""


def check_agent(arguments: argparse.Namespace) -> int:
    """Check an agent and print the report; return the exit code."""
    selection, versions, baseline = _chosen(arguments)
    target, profile = target_of(arguments), _profile(arguments)

    def run(progress: CheckProgress) -> Report:
        check = AgentCheck(
            target,
            profile=profile,
            selection=selection,
            versions=versions or None,
            limit=arguments.timeout or SECONDS,
            jobs=arguments.jobs,
            on_case=progress.show,
        )
        return asyncio.run(check.run())

    return _finish(run, baseline, arguments)


def check_client(arguments: argparse.Namespace) -> int:
    """Check a client and print the report; return the exit code."""
    selection, versions, baseline = _chosen(arguments)
    command, cancel = arguments.command_line, shlex.split(arguments.cancel_command or "")
    for words in (command, cancel):
        if words and not any(AGENT_WORD in word for word in words):
            raise UsageError(f"the command has no {AGENT_WORD}, which stands for the agent that the client is to use")

    def run(progress: CheckProgress) -> Report:
        check = ClientCheck(
            ClientCommand(command, cancel) if command else InteractiveClient(progress.say),
            shlex.join(command) or "a client in use",
            selection=selection,
            versions=versions or VERSIONS,
            url=arguments.url,
            limit=arguments.timeout or SECONDS,
            jobs=arguments.jobs,
            on_case=progress.show if command else progress.report,
            on_address=lambda endpoint: _show_address(endpoint, progress),
        )
        return asyncio.run(check.run() if command else _until_interrupted(check))

    return _finish(run, baseline, arguments)


def _show_address(endpoint: Endpoint, progress: CheckProgress) -> None:
    """Print the address for the settings of a client, in a line of its own."""
    address = f"{endpoint.address}#token={endpoint.token}" if endpoint.token else endpoint.address
    what = "URL" if endpoint.token else "command"
    progress.say(f"use this {what} as the agent in the settings of the client; Ctrl-C ends the check:")
    sys.stderr.write(f"{address}\n")


async def _until_interrupted(check: ClientCheck) -> Report:
    """Run a check with a client in use; Ctrl-C ends it early."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
    try:
        return await check.run()
    except asyncio.CancelledError:
        task.uncancel()
        return check.report()


def list_rules(arguments: argparse.Namespace) -> int:
    """Print the rules."""
    write_rules(safe(sys.stdout, is_exact=arguments.json), as_json=arguments.json)
    return ExitCode.OK


def _chosen(arguments: argparse.Namespace) -> tuple[RuleSelection, list[int], Baseline]:
    """Return the rules, the versions of the protocol and the known failures that a command line names.

    Raises:
        UsageError: There is no such rule or version, or the baseline cannot be used.
    """
    try:
        selection = RuleSelection.of(arguments.rules, arguments.only, arguments.skip)
        baseline = Baseline() if arguments.baseline is None else read_baseline(Path(arguments.baseline))
    except ValueError as error:
        raise UsageError(str(error)) from None
    if unknown := [each for each in arguments.protocol if each not in map(str, VERSIONS)]:
        raise UsageError(f"--protocol {unknown[0]}: the versions of the protocol are 1 and 2")
    if arguments.jobs < 1:
        raise UsageError(f"--jobs {arguments.jobs}: at least one case must run at a time")
    return selection, [int(each) for each in arguments.protocol], baseline


def _profile(arguments: argparse.Namespace) -> Profile:
    is_builtin = not arguments.command_line and arguments.agent is None
    name = arguments.profile or ("builtin" if is_builtin else None)
    try:
        profile = DEFAULT if name is None else read_profile(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    env = {**profile.env, **parse_key_values(arguments.env, "--env")}
    profile = msgspec.structs.replace(profile, env=env)
    if not arguments.ask:
        return profile
    first, *others = arguments.ask
    prompts, more = {**profile.prompts, "answer": first}, (*profile.more_prompts, *others)
    return msgspec.structs.replace(profile, prompts=prompts, more_prompts=more)


def _finish(run: Callable[[CheckProgress], Report], baseline: Baseline, arguments: argparse.Namespace) -> int:
    """Run a check, write its report in every format that is asked for, and return the exit code."""
    _check_paths(arguments)
    with CheckProgress(safe(sys.stderr)) as progress:
        report = run(progress)
    apply_baseline(report, baseline)
    document = make_document(report)
    out = safe(sys.stdout, is_exact=arguments.json)
    if arguments.json:
        out.write(to_json(document))
    else:
        write_report(out, document, is_verbose=arguments.verbose)
    _write_files(document, report, arguments)
    return _exit_code(report, is_strict=arguments.strict)


def _check_paths(arguments: argparse.Namespace) -> None:
    """Find files that cannot be written before the check, which may take minutes, and not after it."""
    for name in FILES:
        path = getattr(arguments, name)
        if path is not None and not Path(path).parent.is_dir():
            raise UsageError(f"--{name.replace('_', '-')} {path}: there is no directory {Path(path).parent}")


def _write_files(document: ReportDocument, report: Report, arguments: argparse.Namespace) -> None:
    writers: dict[str, Callable[[], str]] = {
        "junit": lambda: to_junit(document, is_strict=arguments.strict),
        "sarif": lambda: to_sarif(document),
        "markdown": lambda: to_markdown(document),
        "html": lambda: to_html(document),
        "write_baseline": lambda: baseline_of(report),
    }
    for name, write in writers.items():
        if (path := getattr(arguments, name)) is not None:
            try:
                Path(path).write_text(write(), "utf-8")
            except OSError as error:
                raise UsageError(f"--{name.replace('_', '-')} {path}: {error.strerror}") from None


def _exit_code(report: Report, *, is_strict: bool) -> ExitCode:
    if report.harness_errors:
        return ExitCode.HARNESS
    is_broken = report.problem or report.failures("MUST") or (is_strict and (report.failures() or report.unobserved()))
    return ExitCode.AGENT_ERROR if is_broken else ExitCode.OK
