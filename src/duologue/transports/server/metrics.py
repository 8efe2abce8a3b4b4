"""Metrics of the server in the text format of Prometheus; no content of any message is in them."""

from __future__ import annotations

from collections import Counter


class Metrics:
    """Count events since the start; gauges are passed in when the page is made."""

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()
        self.rejected: Counter[int] = Counter()
        self.resumed = 0
        self.lost = 0
        self.failed = 0
        self._frames_in = self._bytes_in = 0
        self._frames_out = self._bytes_out = 0

    def received(self, size: int) -> None:
        """Count a frame of a client."""
        self._frames_in += 1
        self._bytes_in += size

    def sent(self, size: int, frames: int = 1) -> None:
        """Count frames of an agent."""
        self._frames_out += frames
        self._bytes_out += size

    def page(self, gauges: dict[str, int]) -> str:
        """Return all metrics in the text format."""
        lines: list[str] = []

        def add(name: str, kind: str, text: str, values: dict[str, int]) -> None:
            lines.extend((f"# HELP duologue_{name} {text}", f"# TYPE duologue_{name} {kind}"))
            lines.extend(f"duologue_{name}{labels} {value}" for labels, value in values.items())

        for name, value in gauges.items():
            add(name, "gauge", f"{name.replace('_', ' ').capitalize()} now.", {"": value})
        kinds = {f'{{transport="{kind}"}}': count for kind, count in sorted(self.opened.items())}
        add("connections_opened_total", "counter", "Connections opened.", kinds)
        statuses = {f'{{status="{status}"}}': count for status, count in sorted(self.rejected.items())}
        add("rejected_total", "counter", "Requests rejected.", statuses)
        add("resumed_total", "counter", "Connections resumed.", {"": self.resumed})
        add("history_lost_total", "counter", "Clients that reconnected too late.", {"": self.lost})
        add("agents_failed_total", "counter", "Agents that ended with an error.", {"": self.failed})
        frames = {'{direction="in"}': self._frames_in, '{direction="out"}': self._frames_out}
        add("frames_total", "counter", "Messages moved.", frames)
        sizes = {'{direction="in"}': self._bytes_in, '{direction="out"}': self._bytes_out}
        add("bytes_total", "counter", "Bytes of messages moved.", sizes)
        return "\n".join(lines) + "\n"
