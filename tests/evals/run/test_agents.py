"""The agents of a run: their labels, and that a run is continued with the same ones."""

from __future__ import annotations

import pytest

from duologue.evals.exceptions import EvalError
from duologue.evals.run.targets import eval_agents, parse_agent


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("wss://agents.example/acp?token=s3cret", "agents.example"),
        ("ws://user:s3cret@127.0.0.1:8765/acp", "127.0.0.1-8765"),
        ("https://[::1]:9000/#s3cret", "1-9000"),
        ("http://[::]/s3cret", "remote"),
    ],
)
def test_the_label_of_a_url_is_its_host_and_port(url: str, label: str) -> None:
    agent = parse_agent(url)

    assert (agent.label, agent.target) == (label, url)
    # As a run records it, and as it is read when the run is continued.
    assert parse_agent(f"{label}={url}") == agent


def test_a_url_whose_port_is_no_number_is_refused_without_being_shown() -> None:
    with pytest.raises(EvalError, match="not valid") as caught:
        parse_agent("ws://127.0.0.1:x/acp?token=s3cret")

    assert "s3cret" not in str(caught.value)


def test_a_url_is_no_label() -> None:
    with pytest.raises(EvalError, match="cannot be a URL") as caught:
        eval_agents({"ws://127.0.0.1/acp?token=s3cret": "builtin"})

    assert "s3cret" not in str(caught.value)
