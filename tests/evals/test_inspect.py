"""The figures are those of Inspect, another framework for evaluations.

It is not among the packages of the project: it is installed in an environment of its own on first use.
"""

from __future__ import annotations

import json
import subprocess
from math import isnan

import pytest

from duologue.evals.statistics.agreement import Measurement, krippendorff_alpha
from duologue.evals.statistics.passes import pass_at_k, pass_hat_k
from tests.evals.test_agreement import EXAMPLE
from tests.interop.peers import Absent, inspect_python

MOST_TRIALS = 12

PROGRAM = """
import json, sys
from inspect_ai.scorer import SampleScore, Score, krippendorff_alpha, pass_at, pass_k
def reduced(n, c, k):
    return [each(k)([Score(value=1)] * c + [Score(value=0)] * (n - c)).as_float() for each in (pass_at, pass_k)]
passes = [
    [n, c, k, *reduced(n, c, k)]
    for n in range(1, int(sys.argv[1]) + 1) for c in range(n + 1) for k in range(1, n + 2)
]
items = [[value for value in item if value is not None] for item in zip(*json.loads(sys.argv[2]))]
scores = [SampleScore(score=Score(value=item)) for item in items]
alphas = {level: krippendorff_alpha(level)(scores) for level in ("nominal", "ordinal", "interval")}
print(json.dumps([passes, alphas]))
"""


@pytest.mark.interop
def test_passes_and_agreement_are_those_of_inspect() -> None:
    try:
        python = inspect_python()
    except Absent as reason:
        pytest.skip(str(reason))
    command = [python, "-W", "ignore", "-c", PROGRAM, str(MOST_TRIALS), json.dumps(EXAMPLE)]
    passes, alphas = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=280).stdout)

    assert len(passes) == sum((n + 1) * (n + 1) for n in range(1, MOST_TRIALS + 1))
    for n, c, k, at, hat in passes:
        ours = pass_at_k(n, c, k), pass_hat_k(n, c, k)
        if isnan(at):
            assert ours == (None, None)
        else:
            assert list(ours) == pytest.approx([at, hat], abs=1e-12)
    levels: list[Measurement] = ["nominal", "ordinal", "interval"]
    for level in levels:
        assert krippendorff_alpha(EXAMPLE, level) == pytest.approx(alphas[level], abs=1e-12)
