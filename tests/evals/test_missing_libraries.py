"""Without the extra, everything but the statistics works, and the statistics say what to install."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["numpy"] = None  # as if it were not installed
from duologue import evals
assert evals.pass_at_k(5, 1, 5) == 1.0
assert evals.load_suite and evals.RunDirectory and evals.CaseTrials and evals.json_schema and evals.flakiness
assert evals.read_run and evals.unmet_thresholds and evals.to_junit and evals.to_csv and evals.analyze_balance
assert not {name.partition(".")[0] for name in sys.modules} & {"scipy", "rich", "pytest"}
for name in ("estimate", "compare", "krippendorff_alpha"):
    try:
        getattr(evals, name)
    except ImportError as error:
        print(error)
"""


def test_the_message_names_the_command_that_installs_what_is_missing() -> None:
    output = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)

    lines = output.stdout.splitlines()
    assert len(lines) == 3
    assert set(lines) == {"the statistics of evaluations need numpy: pip install 'duologue[evals]'"}
