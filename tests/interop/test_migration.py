"""The programs of the migration guide: either agent works with either client, and both clients show the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop import peers

PROGRAMS = Path(__file__).parents[2] / "examples" / "migration"
SECONDS = 60

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def official() -> str:
    """Return the interpreter that has the official SDK."""
    try:
        return peers.official_python(peers.OFFICIAL)
    except peers.Absent as reason:
        pytest.skip(f"the official Python SDK: {reason}")


@pytest.mark.parametrize("client", ["client.py", "official_client.py"])
@pytest.mark.parametrize("agent", ["agent.py", "official_agent.py"])
def test_either_agent_of_the_guide_works_with_either_client(
    official: str, agent: str, client: str, tmp_path: Path
) -> None:
    note = tmp_path / "note.txt"
    note.write_text("buy milk\n")

    ended = subprocess.run(
        [*_command(client, official), *_command(agent, official)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "It says: buy milk\n[completed] Clear the note\nend_turn\n"
    assert note.read_text() == ""


def _command(program: str, official: str) -> list[str]:
    return [official if program.startswith("official_") else sys.executable, str(PROGRAMS / program)]
