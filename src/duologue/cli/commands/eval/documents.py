"""Read the runs that a subcommand names, and write the documents that it makes."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from duologue.cli.exit_codes import UsageError
from duologue.evals.report.harness_results import read_harness_run
from duologue.evals.report.run_summary import RunSummary, read_run
from duologue.private_files import FILE_MODE


@contextmanager
def statistics_needed() -> Generator[None]:
    """Report a missing extra as a mistake of the command line, with what to install."""
    try:
        yield
    except ImportError as error:
        if error.name not in ("numpy", "scipy"):
            raise
        raise UsageError(str(error)) from None


def read_results(paths: Sequence[str]) -> list[RunSummary]:
    """Return runs: directories, or files of acp-harness.

    Raises:
        RecordError: One of them is neither.
    """
    return [read_harness_run(path) if path.endswith(".jsonl") else read_run(path) for path in paths]


def write_document(path: str, text: str) -> None:
    """Write a document that only its owner can read, since it has what agents did.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
