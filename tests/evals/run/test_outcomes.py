"""The outcomes of trials: the agent's own result, or a failure that is tried again and then missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duologue.evals.record.result import TrialResult
from duologue.evals.run.progress import RunProgress, TrialEvent
from tests.evals.run.suites import python_agent, run_cases

AGENT = python_agent("obedient_agent")


def case(*steps: str, more: str = "") -> str:
    """Return a case with one prompt."""
    prompt = json.dumps("\n".join(steps))
    return f'[[cases]]\nid = "it"\nprompts = [{prompt}]\n{more}\n'


async def result_of(folder: Path, text: str, **more: object) -> TrialResult:
    """Run a case once, and return its result."""
    _, run = await run_cases(folder, text, agents={"it": AGENT}, **more)
    return next(iter(run.records())).result()


@pytest.mark.parametrize(
    ("steps", "kind", "reason"),
    [
        (["say yes"], "completed", "end_turn"),
        (["stop refusal"], "agent_refused", "refusal"),
        (["stop max_tokens"], "agent_exhausted_budget", "max_tokens"),
        (["stop max_turn_requests"], "agent_exhausted_budget", "max_turn_requests"),
        (["disguise quota exceeded"], "provider_failed", "ModelFailed"),
        (["crash"], "agent_crashed", "AgentExited"),
        (["garble"], "protocol_error", "ProtocolViolation"),
        (["stop cancelled"], "unclassified", "cancelled"),
    ],
)
async def test_each_end_of_a_turn_has_its_outcome(tmp_path: Path, steps: list[str], kind: str, reason: str) -> None:
    result = await result_of(tmp_path, case(*steps), options={"retries": 0})

    assert (result.outcome.kind, result.outcome.reason) == (kind, reason)


async def test_a_failure_that_the_agent_calls_end_turn_names_its_cause(tmp_path: Path) -> None:
    result = await result_of(tmp_path, case("disguise quota exceeded"), options={"retries": 0})

    assert "quota exceeded" in result.outcome.detail
    assert result.stop_reasons == ["end_turn"]


async def test_a_trial_that_broke_is_tried_again_and_counts_once(tmp_path: Path) -> None:
    file = tmp_path / "attempts"
    events: list[str] = []

    def observe(event: TrialEvent, progress: RunProgress) -> None:
        events.append(event.kind)

    text = case(f"crash {file} 2", "say done", more='graders = [{ type = "text", equals = "done" }]')
    end, run = await run_cases(tmp_path, text, agents={"it": AGENT}, observer=observe)

    record = next(iter(run.records()))
    assert events == ["started", "retried", "retried", "finished"]
    assert (record.result().attempts, record.result().outcome.kind) == (3, "completed")
    assert end.progress.passed == 1
    assert run.failed_attempts(record.result().key) == 2
    assert "crashing on demand" in (run.path / "failed/it/it/1-1/wire.acp").read_text()


async def test_a_trial_that_keeps_breaking_is_missing_and_not_failed(tmp_path: Path) -> None:
    text = case("crash", more='graders = [{ type = "text", equals = "done" }]')
    end, run = await run_cases(tmp_path, text, agents={"it": AGENT}, options={"retries": 1})

    record = next(iter(run.records()))
    assert (end.progress.missing, end.progress.failed, end.is_complete) == (1, 0, False)
    assert record.grades() is None
    assert record.result().attempts == 2
    assert "crashing on demand" in record.result().outcome.detail
    assert "obedient_agent.py' exited with code 3" in record.result().outcome.detail


async def test_trials_that_are_missing_can_be_run_again(tmp_path: Path) -> None:
    file = tmp_path / "attempts"
    text = case(f"crash {file} 1", "say done", more='graders = [{ type = "text", equals = "done" }]')
    end, _ = await run_cases(tmp_path, text, agents={"it": AGENT}, options={"retries": 0})
    assert end.progress.missing == 1

    unchanged, _ = await run_cases(tmp_path, text, agents={"it": AGENT}, options={"retries": 0})
    end, run = await run_cases(tmp_path, text, agents={"it": AGENT}, retry_missing=True, options={"retries": 0})

    assert (unchanged.progress.finished, end.progress.passed) == (0, 1)
    record = next(iter(run.records()))
    assert (record.result().attempts, run.failed_attempts(record.result().key)) == (2, 1)


@pytest.mark.fault("TRI-03")
async def test_a_turn_that_takes_too_long_exhausts_its_budget_and_is_graded(tmp_path: Path) -> None:
    more = 'timeouts = { turn = 0.2 }\ngraders = [{ type = "text", contains = ["started"] }]'
    end, run = await run_cases(tmp_path, case("say started", "hang", more=more), agents={"it": AGENT})

    result = next(iter(run.records())).result()
    assert (result.outcome.kind, result.outcome.reason) == ("agent_exhausted_budget", "timeout")
    assert result.output == "started"
    assert end.progress.passed == 1


@pytest.mark.parametrize(
    ("steps", "budget", "reason"),
    [
        (["cost 0.2", "hang"], "{ cost = 0.1 }", "cost"),
        (["tool one", "tool two", "hang"], "{ tool_calls = 1 }", "tool_calls"),
        (["cost 0.2 EUR", "tool one", "tool two", "hang"], "{ cost = 0.1, tool_calls = 1 }", "tool_calls"),
    ],
)
async def test_a_budget_ends_the_turn_that_exceeds_it(
    tmp_path: Path, steps: list[str], budget: str, reason: str
) -> None:
    result = await result_of(tmp_path, case(*steps, more=f"budget = {budget}"))

    assert (result.outcome.kind, result.outcome.reason) == ("agent_exhausted_budget", reason)


async def test_a_budget_of_prompts_ends_the_conversation(tmp_path: Path) -> None:
    text = '[[cases]]\nid = "it"\nprompts = ["say one", "say two"]\nbudget = { prompts = 1 }\n'
    result = await result_of(tmp_path, text)

    assert (result.outcome.reason, result.output) == ("prompts", "one")


async def test_an_agent_that_requires_a_login_is_not_run_further(tmp_path: Path) -> None:
    end, run = await run_cases(tmp_path, case("say x"), agents={"it": f"{AGENT} --login"}, trials=5)

    assert "log in first" in end.given_up["it"]
    assert [record.result().outcome.kind for record in run.records()] == ["auth_required"]
    assert len(run.pending()) == 4


async def test_an_agent_whose_trials_are_all_missing_is_not_run_further(tmp_path: Path) -> None:
    options = {"retries": 0, "give_up_after": 2}
    end, run = await run_cases(tmp_path, case("crash"), agents={"it": AGENT, "ok": AGENT}, trials=4, options=options)

    assert set(end.given_up) == {"it", "ok"}
    assert len(list(run.records())) == 4


async def test_a_grader_that_cannot_decide_makes_the_trial_missing(tmp_path: Path) -> None:
    more = 'graders = [{ type = "executable", command = ["false"] }]'
    end, run = await run_cases(tmp_path, case("say x", more=more), agents={"it": AGENT})

    assert (end.progress.missing, end.progress.failed) == (1, 0)
    grades = next(iter(run.records())).grades()
    assert grades is not None
    assert grades.errors


async def test_a_setting_that_the_agent_does_not_have_is_no_result_of_the_agent(tmp_path: Path) -> None:
    result = await result_of(tmp_path, case("say x", more='session = { model = "best" }'), options={"retries": 0})

    assert not result.outcome.rule.counts
    assert "model" in result.outcome.detail
