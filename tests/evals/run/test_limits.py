"""Limits of a whole run, and what is checked before the first trial."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duologue.evals.exceptions import EvalError, RecordError
from duologue.evals.run.options import RunLimits
from tests.evals.run.suites import GREET, WRITE, python_agent, run_cases

AGENT = python_agent("obedient_agent")


def case(*steps: str) -> str:
    """Return a case with one prompt."""
    prompt = json.dumps("\n".join(steps))
    return f'[[cases]]\nid = "it"\nprompts = [{prompt}]\n'


async def test_a_budget_with_an_agent_that_reports_no_cost_is_refused_and_the_agent_is_named(tmp_path: Path) -> None:
    options = {"limits": RunLimits(cost=5.0)}

    with pytest.raises(EvalError, match="5 USD cannot be kept: it is not known that one, two reports a cost"):
        await run_cases(tmp_path, case("say x"), agents={"one": AGENT, "two": AGENT}, options=options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"limits": RunLimits(cost=5.0, seconds=600)},
        {"limits": RunLimits(cost=5.0, prompts=10)},
        {"limits": RunLimits(cost=5.0), "reports_cost": frozenset({"it"})},
    ],
)
async def test_a_budget_is_accepted_with_another_limit_or_if_the_cost_is_known_to_be_reported(
    tmp_path: Path, options: dict[str, object]
) -> None:
    end, _ = await run_cases(tmp_path, case("cost 0.1"), agents={"it": AGENT}, options=options)

    assert (end.progress.done, end.progress.stop) == (1, "")


async def test_the_budget_stops_further_trials_and_the_run_goes_on_with_a_larger_one(tmp_path: Path) -> None:
    options = {"limits": RunLimits(cost=0.25), "reports_cost": frozenset({"it"})}
    end, run = await run_cases(tmp_path, case("cost 0.1"), agents={"it": AGENT}, trials=6, options=options)

    assert (end.progress.stop, end.progress.done, end.is_complete) == ("cost", 3, False)
    # It is known by now that the agent reports its cost.
    end, _ = await run_cases(tmp_path, case("cost 0.1"), agents={"it": AGENT}, options={"limits": RunLimits(cost=0.55)})
    assert (end.progress.stop, end.progress.done) == ("", 6)
    assert round(end.progress.cost, 6) == 0.6
    assert run.pending() == []


async def test_an_agent_that_reports_no_cost_after_all_stops_a_run_without_another_limit(tmp_path: Path) -> None:
    options = {"limits": RunLimits(cost=5.0), "reports_cost": frozenset({"it"})}
    end, _ = await run_cases(tmp_path, case("say x"), agents={"it": AGENT}, trials=3, options=options)

    assert (end.progress.stop, end.progress.done) == ("unknown_cost", 1)
    assert end.given_up == {"it": "it reported no cost in USD"}


async def test_a_limit_of_prompts_stops_further_trials(tmp_path: Path) -> None:
    options = {"limits": RunLimits(prompts=2)}
    end, _ = await run_cases(tmp_path, case("say x"), agents={"it": AGENT}, trials=5, options=options)

    assert (end.progress.stop, end.progress.done) == ("prompts", 2)


async def test_a_limit_of_time_stops_further_trials(tmp_path: Path) -> None:
    options = {"limits": RunLimits(seconds=0.000001)}
    end, run = await run_cases(tmp_path, case("say x"), agents={"it": AGENT}, trials=5, options=options)

    assert (end.progress.stop, end.progress.done) == ("time", 0)
    assert len(run.pending()) == 5


async def test_an_agent_that_cannot_be_started_is_an_error_before_the_first_trial(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="the agent 'absent' cannot be started: no command 'no-such-program'") as caught:
        await run_cases(tmp_path, GREET, agents={"absent": "no-such-program --acp"}, options={"sandbox": "auto"})
    assert "sandbox" not in str(caught.value), "nothing was started, so that nothing was confined"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ([], "there is no agent"),
        (["builtin", "builtin"], "two agents have the label 'builtin'"),
        (["replay:absent.acp"], "absent.acp"),
        (["x= "], "names no agent"),
    ],
)
async def test_a_wrong_choice_of_agents_is_an_error(tmp_path: Path, agents: list[str], message: str) -> None:
    with pytest.raises(EvalError, match=message):
        await run_cases(tmp_path, GREET, agents=agents)


async def test_a_case_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="no case and no tag 'absent'"):
        await run_cases(tmp_path, GREET, agents={"it": AGENT}, cases=["absent"])


async def test_a_run_is_not_continued_with_another_suite_or_other_agents(tmp_path: Path) -> None:
    await run_cases(tmp_path, case("say x"), agents={"it": AGENT})

    with pytest.raises(RecordError, match="another version of the suite"):
        await run_cases(tmp_path, WRITE, agents={"it": AGENT})
    with pytest.raises(RecordError, match="a run of the agents it, and cannot be continued with other"):
        await run_cases(tmp_path, case("say x"), agents={"other": AGENT})
