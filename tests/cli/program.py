"""The real program, in a process of its own: off a terminal, and on one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

PROGRAM = [sys.executable, "-m", "duologue.cli.main"]
ODD_AGENT = [sys.executable, str(Path(__file__).with_name("odd_agent.py"))]
ACTING_AGENT = [sys.executable, str(Path(__file__).with_name("acting_agent.py"))]
SECONDS = 60.0


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a user without any files."""
    directories = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "STATE")}
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm", **directories, **more}


def duologue(
    home: Path, *arguments: str, stdin: str | bytes = "", cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run it off a terminal, without one to ask on."""
    ended = subprocess.run(
        [*PROGRAM, *arguments],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        timeout=SECONDS,
        check=False,
        cwd=cwd or home,
        env=environment(home, **env),
        start_new_session=True,
    )
    return subprocess.CompletedProcess(ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode())


class Terminal:
    """The program on a terminal, and its user."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self.raw = b""
        self.text = ""
        self._screen = screen
        self._seen = 0

    def until(self, text: str, seconds: float = SECONDS) -> str:
        """Wait for this text; return everything shown before it, without colours."""
        deadline = time.monotonic() + seconds
        while text not in self.text[self._seen :]:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} was never shown; this was:\n{self.text[self._seen :]}")
        end = self.text.index(text, self._seen) + len(text)
        shown, self._seen = self.text[self._seen : end], end
        return shown

    def type(self, text: str) -> None:
        """Type text as a user would."""
        os.write(self._screen, text.encode())

    def complete(self, text: str, tries: int = 10) -> None:
        """Press Tab until this is shown, as a person does who was too early: what can be completed comes by and by."""
        for left in reversed(range(tries)):
            self.type("\t")
            try:
                self.until(text, seconds=2.0)
            except AssertionError:
                if not left:
                    raise
            else:
                return

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def modes(self) -> list[Any]:
        """Return the modes of the terminal."""
        return termios.tcgetattr(self._screen)

    def wait(self) -> int:
        """Wait for the end of the program; return its exit code."""
        deadline = time.monotonic() + SECONDS
        while self._read(deadline - time.monotonic()):
            pass
        return self.process.wait(SECONDS)

    def _read(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self._screen], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._screen, 65536)
        except OSError:  # the other end is closed
            return False
        self.raw += data
        self.text += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", data.decode("utf-8", "replace"))
        return bool(data)


@contextlib.contextmanager
def terminal(
    home: Path, *arguments: str, cwd: Path | None = None, program: list[str] | None = None, **env: str
) -> Generator[Terminal]:
    """Run it, or another program, on a terminal of 80 by 24."""
    screen, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", _ON_TERMINAL, *(PROGRAM if program is None else program), *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd or home,
        env=environment(home, **env),
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, screen)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(screen)


# The terminal becomes that of the program, so that it can be asked on and its Ctrl-C arrives.
_ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
