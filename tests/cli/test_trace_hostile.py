"""Every view of `duologue trace` on a recording that was made to harm its reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.program import duologue
from tests.trace.recorded_run import RecordedRun

EVIL = "\x1b]0;title\x07\x1b[2J\u202egnp.exe\r\x9b31m\u2066"
CONTROLS = set("\x1b\x07\x9b\r\u202e\u2066")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with `run.acp`: control codes everywhere, deep nesting, a giant line, open requests."""
    directory = tmp_path_factory.mktemp("hostile")
    run = RecordedRun(EVIL).opened().prompt(EVIL).text(EVIL, "x" * 3_000_000).other(stderr=EVIL)
    run.update("tool_call", toolCallId=EVIL, title=EVIL, kind=EVIL, status=EVIL, rawInput={EVIL: EVIL})
    run.permission(EVIL, chosen=EVIL).update(EVIL, **{EVIL: 1}).stop(EVIL)
    run.raw("to_client", b'{"method":"session/update","params":' + b"[" * 900 + b"]" * 900 + b"}")
    run.raw("to_client", b'{"method":"x","params":' + b"[" * 50_000 + b"]" * 50_000 + b"}")
    run.frame("to_client", id=EVIL, error={"code": 1, "message": EVIL}).other(dir="to_client", text=EVIL)
    for number in range(3000):
        run.frame("to_agent", id=f"{EVIL}{number}", method=EVIL, params={"sessionId": EVIL})
    run.save(directory / "run.acp")
    RecordedRun("other").opened().prompt("hi").text("fine").save(directory / "other.acp")
    return directory


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("run.acp", 0),
        ("run.acp --full", 0),
        ("run.acp --stats", 0),
        ("run.acp --check", 1),
        ("run.acp --conversation --full", 0),
        ("validate run.acp --full", 1),
        ("diff run.acp other.acp --full", 1),
        ("export run.acp", 0),
        ("export run.acp --format mermaid", 0),
    ],
)
def test_no_view_passes_control_codes_on(hostile: Path, arguments: str, code: int) -> None:
    ended = duologue(hostile, "trace", *arguments.split())

    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert not CONTROLS & set(ended.stdout + ended.stderr)


@pytest.mark.parametrize(
    "arguments",
    ["run.acp --json", "run.acp --conversation --json", "validate run.acp --json", "diff run.acp other.acp --json"],
)
def test_lines_of_json_are_one_object_each(hostile: Path, arguments: str) -> None:
    ended = duologue(hostile, "trace", *arguments.split())

    assert "Traceback" not in ended.stderr
    assert all(line.startswith('{"format":1,') and line.endswith("}") for line in ended.stdout.split("\n")[:-1])


def test_a_hostile_recording_is_written_again(hostile: Path, tmp_path: Path) -> None:
    ended = duologue(hostile, "trace", "redact", "run.acp", "-o", str(tmp_path / "new.acp"))

    assert ended.returncode == 0, ended.stderr
    assert duologue(tmp_path, "trace", "validate", "new.acp").returncode == 1
