"""The formats of a report: the same data in each, no secrets, and nothing of the peer runs or breaks them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from duologue.conformance.baseline import Baseline, KnownFailure, apply_baseline, baseline_of, read_baseline
from duologue.conformance.report import Report
from duologue.conformance.reports.document import (
    LONGEST_MESSAGE,
    MOST_FINDINGS,
    MOST_FRAMES,
    ReportDocument,
    make_document,
)
from duologue.conformance.reports.html import to_html
from duologue.conformance.reports.json_report import to_json
from duologue.conformance.reports.junit import to_junit
from duologue.conformance.reports.markdown import to_markdown
from duologue.conformance.reports.sarif import to_sarif
from duologue.conformance.verdicts import CaseResult, Judgement, RuleVerdict, combine
from duologue.conformance.wire_log import WireLog
from duologue.trace.rules.catalogue import CATALOGUE

HOSTILE = "</script></style><img src=x onerror=alert(1)>\x1b[31m\u202e|`*"
SECRET = "sk-abcdefghijklmnopqrstuvwxyz0123456789"


def sample_report(message: str = "the answer has 99", frame: bytes = b'{"jsonrpc":"2.0"}') -> Report:
    """Return the report of one case that breaks rule 27 and keeps rule 26."""
    log = WireLog()
    number = log.connect().add("to_client", frame)
    case = CaseResult(
        case="version-unsupported",
        version=1,
        title="Request versions that do not exist.",
        judgements=[
            Judgement(rule=26, verdict=RuleVerdict.PASS, case="version-unsupported"),
            Judgement(rule=27, verdict=RuleVerdict.FAIL, case="version-unsupported", message=message, frames=(number,)),
            Judgement(rule=29, verdict=RuleVerdict.SKIPPED, case="version-unsupported", message="not advertised"),
        ],
        wire=log.frames,
        stderr=message,
    )
    rules = [CATALOGUE[each] for each in (26, 27, 29, 33)]
    return Report(
        side="agent",
        target=f"agent {message}",
        transport="stdio",
        versions=(1,),
        rule_set="1.15",
        info={"name": message, "version": "1"},
        started="2026-11-18T00:00:00+00:00",
        results=combine(rules, 1, [case]),
        cases=[case],
    )


def document(**options: Any) -> ReportDocument:
    return make_document(sample_report(**options))


def test_every_rule_has_the_strongest_of_its_verdicts() -> None:
    made = document()

    assert {row.number: row.verdict for row in made.rules} == {
        26: RuleVerdict.PASS,
        27: RuleVerdict.FAIL,
        29: RuleVerdict.SKIPPED,
        33: RuleVerdict.NOT_OBSERVED,
    }
    assert made.summary == {"PASS": 1, "FAIL": 1, "SKIPPED": 1, "NOT OBSERVED": 1}


def test_a_must_that_was_not_observed_is_no_pass() -> None:
    assert [each.rule.number for each in sample_report().unobserved()] == [33]


def test_json_names_its_version_and_can_be_read_back() -> None:
    made = document()
    read = json.loads(to_json(made))

    assert (read["duologue"], read["format"]) == ("check", 1)
    assert msgspec.convert(read, ReportDocument) == made


def test_junit_counts_failures_and_skipped_rules() -> None:
    suite = ET.fromstring(to_junit(document()))[0]

    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "2")
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["27 version-fallback"]


def test_sarif_has_a_result_for_each_broken_rule() -> None:
    run = json.loads(to_sarif(document()))["runs"][0]

    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [("ACP027", "error")]
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == ["ACP027"]


def test_sarif_names_each_place_of_a_result_once() -> None:
    report = sample_report()
    [case] = report.cases
    again = Judgement(rule=27, verdict=RuleVerdict.FAIL, case=case.case, message="another answer")
    case.judgements = [*case.judgements, again]
    report.results = combine([each.rule for each in report.results], 1, [case])
    [result] = json.loads(to_sarif(make_document(report)))["runs"][0]["results"]

    assert result["message"]["text"].count("(case version-unsupported)") == 2
    assert [each["fullyQualifiedName"] for each in result["locations"][0]["logicalLocations"]] == [
        "v1/version-unsupported"
    ]


def test_markdown_shows_the_broken_rule_and_the_reason() -> None:
    text = to_markdown(document())

    assert "### 27 " in text
    assert "the answer has 99 (messages 1)" in text


def test_texts_of_the_peer_stay_text_in_every_format() -> None:
    frame = msgspec.json.encode({"jsonrpc": "2.0", "method": HOSTILE})
    made = document(message=HOSTILE, frame=frame)
    page = to_html(made)

    assert "<img" not in page
    assert "</script>" not in page
    assert page.count("</style>") == 1
    assert "\x1b" not in page
    assert re.search(r"(?<!\\)<img", re.sub(r"`[^`\n]*`", "", to_markdown(made))) is None
    ET.fromstring(to_junit(made))
    json.loads(to_sarif(made))


def test_secrets_are_in_no_format() -> None:
    frame = msgspec.json.encode({"jsonrpc": "2.0", "params": {"env": [{"name": "KEY", "value": SECRET}], "t": SECRET}})
    made = document(message=f"got {SECRET}", frame=frame)

    for text in (to_json(made), to_junit(made), to_sarif(made), to_markdown(made), to_html(made)):
        assert SECRET not in text


def test_long_messages_are_cut() -> None:
    frame = msgspec.json.encode({"jsonrpc": "2.0", "text": "x" * 100_000})
    [case] = document(frame=frame).cases

    assert len(case.wire[0].text) == LONGEST_MESSAGE + 1
    assert case.wire[0].size == len(frame)


def test_messages_that_findings_are_about_are_shown_however_late_they_came() -> None:
    report = sample_report()
    [case] = report.cases
    log = WireLog()
    connection = log.connect()
    numbers = [connection.add("to_client", b'{"jsonrpc":"2.0"}') for _ in range(MOST_FRAMES * 2)]
    late = Judgement(rule=27, verdict=RuleVerdict.FAIL, case=case.case, message="late", frames=(numbers[-2],))
    case.wire, case.judgements = log.frames, [*case.judgements, late]
    report.results = combine([each.rule for each in report.results], 1, [case])
    made = make_document(report)
    page = to_html(made)

    assert [each.number for each in made.cases[0].wire] == [*numbers[:MOST_FRAMES], numbers[-2]]
    assert made.cases[0].omitted == MOST_FRAMES - 1
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets
    assert targets <= set(re.findall(r' id="([^"]+)"', page))


def test_findings_of_one_rule_are_counted_when_they_are_many() -> None:
    report = sample_report()
    [case] = report.cases
    many = [
        Judgement(rule=27, verdict=RuleVerdict.FAIL, case=case.case, message=f"the answer has {number}")
        for number in range(MOST_FINDINGS + 1000)
    ]
    report.results = combine(
        [each.rule for each in report.results], 1, [msgspec.structs.replace(case, judgements=many)]
    )
    made = make_document(report)

    [row] = made.failed()
    assert (len(row.findings), row.more_findings) == (MOST_FINDINGS, 1000)
    for text in (to_junit(made), to_sarif(made), to_markdown(made), to_html(made)):
        assert "1,000 more" in text
        assert f"the answer has {MOST_FINDINGS}" not in text


def test_a_check_that_could_not_be_made_is_an_error_in_every_format() -> None:
    report = sample_report()
    report.problem = "it exited <at once>"
    report.cases[0].harness_errors = ["Traceback <here>"]
    made = make_document(report)

    [*_, suite] = ET.fromstring(to_junit(made))
    assert (suite.get("tests"), suite.get("errors")) == ("2", "2")
    assert [case[0].get("message") for case in suite] == [
        "version-unsupported: Traceback <here>",
        "it exited <at once>",
    ]
    [invocation] = json.loads(to_sarif(made))["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    assert len(invocation["toolExecutionNotifications"]) == 2
    assert "the agent could not be checked: it exited" in to_markdown(made)
    assert "the agent could not be checked: it exited &lt;at once&gt;" in to_html(made)


@pytest.mark.parametrize(
    ("verdicts", "style"),
    [
        ([RuleVerdict.PASS, RuleVerdict.FAIL], "fail"),
        ([RuleVerdict.NOT_OBSERVED, RuleVerdict.PASS], "pass"),
        ([RuleVerdict.SKIPPED, RuleVerdict.NOT_OBSERVED], "none"),
        ([RuleVerdict.SKIPPED], "skip"),
    ],
)
def test_a_case_that_judged_nothing_does_not_look_like_one_that_passed(verdicts: list[RuleVerdict], style: str) -> None:
    report = sample_report()
    report.cases[0].judgements = [
        Judgement(rule=rule, verdict=verdict, case="a-case") for rule, verdict in enumerate(verdicts, 26)
    ]

    assert f'<span class="verdict {style}">version-unsupported</span>' in to_html(make_document(report))


def test_a_known_failure_does_not_fail_the_check() -> None:
    report = sample_report()
    apply_baseline(report, Baseline(known=(KnownFailure(27), KnownFailure(26, version=1))))

    assert report.failures() == []
    assert report.fixed == ["26/1"]
    assert 'suppressions"' in to_sarif(make_document(report))


def test_a_known_failure_of_another_version_counts() -> None:
    report = sample_report()
    apply_baseline(report, Baseline(known=(KnownFailure(27, version=2),)))

    assert [each.rule.number for each in report.failures("MUST")] == [27]


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (KnownFailure(999), "999 (there is no such rule)"),
        (KnownFailure(28), "28 (it binds the client)"),
        (KnownFailure(137, version=1), "137/1 (it is no rule of version 1)"),
        (KnownFailure(26, version=2), "26/2 (version 2 was not checked)"),
        (KnownFailure(29, version=1), "29/1 (SKIPPED)"),
        (KnownFailure(33), "33 (NOT OBSERVED)"),
    ],
)
def test_an_entry_of_the_baseline_that_a_check_did_not_judge_is_named(known: KnownFailure, reason: str) -> None:
    report = sample_report()
    apply_baseline(report, Baseline(known=(KnownFailure(27), known)))
    made = make_document(report)

    assert report.unjudged == [reason]
    [note] = made.notes()
    assert note == f"entries of the baseline that this check did not judge: {reason}; remove those that no longer apply"
    assert json.loads(to_json(made))["unjudged"] == [reason]
    assert reason in to_html(made)
    assert "## Notes" in to_markdown(made)


def test_entries_that_were_judged_or_left_out_by_the_user_are_not_named() -> None:
    report = sample_report()
    apply_baseline(report, Baseline(known=(KnownFailure(26), KnownFailure(27, version=1), KnownFailure(34))))

    assert report.unjudged == []
    assert make_document(report).notes() == []


def test_a_repeated_case_is_named_in_every_format_for_people() -> None:
    report = sample_report()
    report.cases[0].is_repeated = report.cases[0].has_timed_out = True
    made = make_document(report)

    [note] = made.notes()
    assert "version-unsupported (version 1); 1 of them waited in vain again" in note
    assert "version-unsupported (version 1)" in to_html(made)
    assert ", repeated</span>" in to_html(made)
    assert "waited in vain again" in to_markdown(made)
    assert json.loads(to_json(made))["cases"][0]["isRepeated"] is True


def test_a_written_baseline_covers_the_failures_it_was_written_for(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text(baseline_of(sample_report()), "utf-8")
    report = sample_report()
    apply_baseline(report, read_baseline(file))

    assert report.failures() == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("format = 2", "format 2 is newer"),
        ("[[known]]\nrule = 'x'", "Expected `int`"),
        ("[[known]]\nrule = 1\nwhy = ''", "unknown field `why`"),
        ("[[", "Expected|Invalid"),
    ],
)
def test_a_baseline_that_cannot_be_used_is_rejected_with_the_reason(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "known.toml"
    file.write_text(text, "utf-8")

    with pytest.raises(ValueError, match=problem):
        read_baseline(file)
