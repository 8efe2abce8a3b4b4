"""`duologue trace validate`: check recordings against the rules of the protocol."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import msgspec

from duologue.cli.console.safe_output import SafeOutput, Style, safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.recording.reader import RecordingReader
from duologue.sanitize import escape_line
from duologue.trace.rules.catalogue import CATALOGUE
from duologue.trace.validation import RuleFinding, Validator, selected_rules, validate

FORMAT = 1
"""Version of the lines of `--json`."""
MOST_FINDINGS = 10
"""Findings of each rule that are printed without `--full`."""
STYLES = {"error": Style.RED, "warning": Style.YELLOW}


def validate_recordings(arguments: argparse.Namespace) -> int:
    """Print the findings of each recording; return 1 if one of them is an error."""
    out = safe(sys.stdout, is_exact=arguments.json)
    if arguments.list_rules:
        _list_rules(out, arguments.json)
        return ExitCode.OK
    if not arguments.files:
        raise UsageError("name at least one recording")
    failed = False
    try:
        numbers = selected_rules(arguments.rule)
        for file in arguments.files:
            with RecordingReader(Path(file)) as reader:
                counts = _validate(out, reader, Validator(numbers), arguments)
            failed = failed or bool(counts["error"] or (arguments.strict and counts["warning"]))
    except (FileNotFoundError, IsADirectoryError, PermissionError, ValueError) as error:
        raise UsageError(str(error)) from None
    return ExitCode.AGENT_ERROR if failed else ExitCode.OK


def _validate(
    out: SafeOutput, reader: RecordingReader, validator: Validator, arguments: argparse.Namespace
) -> Counter[str]:
    counts: Counter[str] = Counter()
    by_rule: Counter[str] = Counter()
    file = str(reader.path)
    for finding in validate(reader, validator):
        counts[finding.level] += 1
        by_rule[finding.rule] += 1
        if arguments.json:
            out.write_json({"format": FORMAT, "file": file, **msgspec.to_builtins(finding)})
        elif arguments.full or by_rule[finding.rule] <= MOST_FINDINGS:
            _write(out, finding)
    errors, warnings = counts["error"], counts["warning"]
    if arguments.json:
        summary = {
            "errors": errors,
            "warnings": warnings,
            "damaged": reader.damaged,
            "rules": dict(by_rule),
            "observed": sorted(validator.observed),
        }
        out.write_json({"format": FORMAT, "file": file, "summary": summary})
        return counts
    for rule, count in by_rule.items():
        if count > MOST_FINDINGS and not arguments.full:
            out.write(f"… {count - MOST_FINDINGS:,} more findings of {rule}; --full prints them\n", Style.DIM)
    damaged = f", {_number(reader.damaged, 'damaged line')} left out" if reader.damaged else ""
    text = f"{_number(errors, 'error')}, {_number(warnings, 'warning')}{damaged}"
    style = Style.RED if errors else Style.YELLOW if warnings else Style.GREEN
    out.write(f"{escape_line(file)}: {text if errors or warnings else f'no findings{damaged}'}\n", style)
    return counts


def _write(out: SafeOutput, finding: RuleFinding) -> None:
    first, *others = finding.frames
    also = f" (see {', '.join(f'{number:,}' for number in others)})" if others else ""
    position = f"message {first:,}{also} at {finding.t:,.3f} s"
    out.write(f"{finding.level}: ", STYLES[finding.level])
    out.write(finding.rule, Style.BOLD)
    out.write(f" (rule {finding.number})", Style.DIM)
    out.write(f", {position}" + (f", by the {finding.side}\n" if finding.side else "\n"), Style.DIM)
    path = f"  {escape_line(finding.path)}" if finding.path else ""
    out.write(f"    {escape_line(finding.message)}{path}\n")
    out.write(f"    hint: {finding.hint}; see {finding.clause}\n", Style.DIM)


def _list_rules(out: SafeOutput, as_json: bool) -> None:
    for rule in CATALOGUE.values():
        if not rule.is_passive:
            continue
        if as_json:
            described = {"rule": rule.name, "binds": rule.binds, "level": rule.level, "text": rule.text}
            origin = {"number": rule.number, "clause": rule.clause, "versions": rule.versions}
            out.write_json({"format": FORMAT, **described, "hint": rule.hint, **origin})
        else:
            sides = "agent, client" if rule.binds == "both" else rule.binds
            out.write(f"{rule.number:>3}  {rule.name:<28}{rule.level:<8}{sides:<15}{rule.text} ({rule.clause})\n")


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
