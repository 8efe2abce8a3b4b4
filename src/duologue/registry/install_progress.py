"""Report what an installation does, so that the command line can show it; the functions here never print."""

from __future__ import annotations


class InstallProgress:
    """Receives what an installation does; this one ignores it."""

    def step(self, text: str) -> None:
        """Report that a step begins, such as the start of npm."""

    def received(self, size: int, announced: int | None) -> None:
        """Report bytes of a download."""

    def notice(self, text: str) -> None:
        """Report something that the user must know: what is executed, what could not be checked, a wait."""
