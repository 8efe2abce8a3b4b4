"""`duologue trace export --html` and `duologue trace serve` on the command line."""

from __future__ import annotations

import signal
import subprocess
import urllib.request
from pathlib import Path

from duologue.cli.commands.trace import serve
from tests.cli.program import PROGRAM
from tests.inspector.recordings import conversation, write
from tests.inspector.test_export import data_of

SECONDS = 60


def program(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, timeout=SECONDS, check=False)


def test_the_page_is_written_to_a_file_for_its_owner(tmp_path: Path) -> None:
    path, page = write(tmp_path / "run.acp", conversation()), tmp_path / "run.html"
    done = program("trace", "export", "--html", str(path), "-o", str(page))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert data_of(page.read_text("utf-8"))["info"]["frames"] == 13
    assert page.stat().st_mode & 0o777 == 0o600


def test_the_page_goes_to_stdout_without_a_file(tmp_path: Path) -> None:
    done = program("trace", "export", "--html", str(write(tmp_path / "run.acp", conversation())))

    assert done.stdout.startswith("<!doctype html>")
    assert done.stdout.endswith("</html>\n")


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    recording = write(tmp_path / "run.acp", conversation())
    no_recording = program("trace", "export", "--html", str(tmp_path / "notes.txt"))
    no_folder = program("trace", "export", "--html", str(recording), "-o", str(tmp_path / "absent" / "run.html"))

    assert (no_recording.returncode, no_folder.returncode) == (2, 2)
    assert "is not a recording" in no_recording.stderr
    assert str(tmp_path / "absent") in no_folder.stderr


def test_the_printed_address_serves_the_page_until_a_signal(tmp_path: Path) -> None:
    write(tmp_path / "run.acp", conversation())
    command = [*PROGRAM, "trace", "serve", str(tmp_path), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address, _, token = process.stdout.readline().strip().partition("#token=")
        request = urllib.request.Request(address + "api/recordings", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            recordings = answer.read()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=SECONDS)

    assert address.startswith("http://127.0.0.1:")
    assert b'"run.acp"' in recordings
    assert (process.returncode, errors) == (0, "")


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = program("trace", "serve", str(tmp_path / "absent"), "--no-open")

    assert done.returncode == 2
    assert "absent" in done.stderr


def test_the_token_is_not_on_the_command_line_of_the_browser(tmp_path: Path) -> None:
    opened: list[str] = []

    def open_in_browser(url: str) -> bool:
        opened.append(url)
        return True

    serve.open_page("http://127.0.0.1:1/#token=secret", tmp_path, open_in_browser)

    assert opened == [(tmp_path / "open.html").as_uri()]
    assert "#token=secret" in (tmp_path / "open.html").read_text()
