"""Draw the image of the README: run `duologue run /tour` in a pseudo-terminal and export what it shows as SVG.

    python -m scripts.tour_picture [FILE]

The image is made from a real run. Only the duration in the closing line differs from one run to the next, so it is
replaced by a fixed one; a second run then writes the same file.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "images" / "tour.svg"
COMMAND = ("run", "/tour", "--yes")
COLUMNS = 92
ROWS = 200
SECONDS = 60

THEME = TerminalTheme(
    (24, 26, 31),
    (214, 217, 224),
    [
        (62, 68, 81),
        (224, 108, 117),
        (152, 195, 121),
        (229, 192, 123),
        (97, 175, 239),
        (198, 120, 221),
        (86, 182, 194),
        (171, 178, 191),
    ],
)


def run_in_terminal() -> str:
    """Run the command on a pseudo-terminal and return everything it wrote."""
    duologue = Path(sys.executable).parent / "duologue"
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory) / "project"
        project.mkdir()
        env = {
            "PATH": os.environ["PATH"],
            "HOME": directory,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "COLUMNS": str(COLUMNS),
        }
        process = subprocess.Popen([duologue, *COMMAND], stdin=child, stdout=child, stderr=child, cwd=project, env=env)
        os.close(child)
        written = _read_all(parent)
        if process.wait(SECONDS) != 0:
            raise SystemExit(f"the tour ended with exit code {process.returncode}:\n{written}")
    return _as_seen(written.replace("\r\n", "\n"))


def _as_seen(written: str) -> str:
    """Return what stays on the screen: a line that the program erases and writes again counts once."""
    return re.sub(r"\x1b\[\?25l\x1b\[2K\n\x1b\[\?25h\x1b\[1A\x1b\[2K", "", written)


def _read_all(terminal: int) -> str:
    written = b""
    try:
        while piece := os.read(terminal, 65536):
            written += piece
    except OSError:  # Linux reports the end of a pseudo-terminal as EIO
        pass
    os.close(terminal)
    return written.decode("utf-8", "replace")


def as_svg(written: str) -> str:
    """Return an SVG image of the terminal, which loads nothing from elsewhere."""
    shown = re.sub(r"\d+\.\d+ s\b", "0.4 s", written).rstrip("\n")
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ ", "bold green"), "duologue ", " ".join(COMMAND)))
    for line in shown.split("\n"):
        console.print(Text.from_ansi(line), soft_wrap=True)
    svg = console.export_svg(title="duologue run /tour", theme=THEME, unique_id="tour")
    svg = re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL)
    svg = re.sub(r' clip-path="url\(#tour-line-\d+\)"', "", svg)  # other fonts reach below the line
    return re.sub(r"font-family: [^;]+;", "font-family: Menlo, Consolas, 'DejaVu Sans Mono', monospace;", svg)


def main() -> None:
    """Write the image."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(as_svg(run_in_terminal()), "utf-8")
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
