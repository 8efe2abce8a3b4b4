"""The live view of a run on a terminal: what is done, what runs, the cost so far, and the time left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from duologue.cli.console.safe_output import SafeOutput, Style
from duologue.evals.run.progress import RunProgress
from duologue.sanitize import escape_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

REFRESHES_PER_SECOND = 4
MOST_RUNNING = 8
"""Trials that run of which each is shown."""


class RunView:
    """Draws the state of a run again and again below what is printed; only with `rich` and on a terminal."""

    def __init__(self, out: SafeOutput) -> None:
        from rich.console import Console
        from rich.live import Live

        self._out = out
        self._progress: RunProgress | None = None
        self._console = Console(file=out.trusted, no_color=not out.has_colour)
        self._live: Live = Live(
            console=self._console,
            get_renderable=self._drawn,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start(refresh=True)

    @classmethod
    def on(cls, out: SafeOutput) -> RunView | None:
        """Return a view on a stream; None if it is no terminal that can be drawn on, or `rich` is not installed."""
        if not out.isatty() or not out.has_symbols:
            return None
        try:
            return cls(out)
        except ImportError:
            return None

    def update(self, progress: RunProgress) -> None:
        """Show this state from now on."""
        self._progress = progress

    def print(self, text: str, style: Style) -> None:
        """Print a line above the view."""
        from rich.text import Text

        colour = {Style.RED: "red", Style.YELLOW: "yellow", Style.GREEN: "green"}.get(style, "")
        self._console.print(Text(escape_line(text, None), style=colour), soft_wrap=True)

    def close(self) -> None:
        """Remove the view."""
        self._live.stop()

    def _drawn(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        progress = self._progress
        if progress is None:
            return Text("starting the agents …", style="dim")
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(total=max(1, progress.total), completed=progress.done, width=20),
            Text(f"{progress.done}/{progress.total}", style="bold"),
            _counts(progress),
        )
        now = time.monotonic()
        running = sorted(progress.running.items(), key=lambda each: each[1])
        lines = [
            Text(f"  {escape_line(f'{key.agent} {key.case} {key.trial}', None)}  {clock(now - started)}", style="dim")
            for key, started in running[:MOST_RUNNING]
        ]
        if len(running) > MOST_RUNNING:
            lines.append(Text(f"  and {len(running) - MOST_RUNNING} more", style="dim"))
        return Group(line, *lines)


def _counts(progress: RunProgress) -> RenderableType:
    from rich.text import Text

    text = Text()
    for number, word, style in (
        (progress.passed, "passed", "green"),
        (progress.failed, "failed", "red"),
        (progress.missing, "missing", "yellow"),
        (len(progress.running), "running", ""),
    ):
        if number:
            text.append(f"{number} {word}  ", style=style)
    if progress.has_cost:
        text.append(f"{progress.cost:.4g} {progress.currency}  ")
    text.append(clock(progress.seconds), style="dim")
    if (left := progress.seconds_left) is not None:
        text.append(f", about {clock(left)} left", style="dim")
    return text


def clock(seconds: float) -> str:
    """Return a time as minutes and seconds, or with hours."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
