"""The directory of a trial: the names of its files, reading them, and replacing its grades."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from duologue.evals.exceptions import RecordError
from duologue.evals.record.manifest import RECORD_FORMAT, TrialManifest
from duologue.evals.record.result import Grades, TrialResult
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.record.versioned_file import read_bounded, read_versioned, write_versioned

MAX_LINE_BYTES = 64 << 20
"""Length of the longest step of a trajectory that is read."""


class TrialFiles:
    """The files of a trial, in the directory of an attempt or of a record.

    Attributes:
        directory: The directory.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def manifest_file(self) -> Path:
        """The manifest."""
        return self.directory / "manifest.json"

    @property
    def wire_file(self) -> Path:
        """The recording of all frames."""
        return self.directory / "wire.acp"

    @property
    def trajectory_file(self) -> Path:
        """The steps."""
        return self.directory / "trajectory.jsonl"

    @property
    def patch_file(self) -> Path:
        """The changes of the workspace."""
        return self.directory / "workspace.patch"

    @property
    def workspace_directory(self) -> Path:
        """The workspace after the trial, if it was saved for graders."""
        return self.directory / "workspace"

    @property
    def result_file(self) -> Path:
        """How it ended; a directory without it is not a record."""
        return self.directory / "result.json"

    @property
    def grades_file(self) -> Path:
        """The output of its graders."""
        return self.directory / "grades.json"

    def write_manifest(self, manifest: TrialManifest) -> None:
        """Write what is run."""
        write_versioned(self.manifest_file, manifest)

    def write_trajectory(self, steps: Iterable[TrajectoryStep]) -> None:
        """Write the steps, replacing earlier ones."""
        encode = msgspec.json.Encoder().encode
        with self.trajectory_file.open("wb") as file:
            for step in steps:
                file.write(encode(step) + b"\n")

    def write_patch(self, patch: bytes) -> None:
        """Write what changed in the workspace."""
        self.patch_file.write_bytes(patch)


class TrialRecord(TrialFiles):
    """The record of a finished trial."""

    def manifest(self) -> TrialManifest:
        """Return what was run.

        Raises:
            RecordError: The file is missing, damaged, or of a newer version.
        """
        return read_versioned(self.manifest_file, TrialManifest, RECORD_FORMAT)

    def result(self) -> TrialResult:
        """Return how it ended.

        Raises:
            RecordError: The file is missing, damaged, or of a newer version.
        """
        return read_versioned(self.result_file, TrialResult, RECORD_FORMAT)

    def grades(self) -> Grades | None:
        """Return the output of its graders; None if it has not been graded.

        Raises:
            RecordError: The file is damaged, or of a newer version.
        """
        return read_versioned(self.grades_file, Grades, RECORD_FORMAT) if self.grades_file.exists() else None

    def write_grades(self, grades: Grades) -> None:
        """Replace the output of its graders."""
        write_versioned(self.grades_file, grades)

    def patch(self) -> str:
        """Return what changed in the workspace; empty if that was not recorded."""
        return self.patch_bytes().decode("utf-8", "replace")

    def patch_bytes(self) -> bytes:
        """Return what changed in the workspace as it was written; files need not be text."""
        return read_bounded(self.patch_file) if self.patch_file.exists() else b""

    def trajectory(self) -> Iterator[TrajectoryStep]:
        """Yield the steps; none if they were not recorded.

        Raises:
            RecordError: A line is damaged.
        """
        if not self.trajectory_file.exists():
            return
        decode = msgspec.json.Decoder(TrajectoryStep).decode
        with self.trajectory_file.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
                try:
                    yield decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    raise RecordError(f"{self.trajectory_file}, line {number} is damaged: {error}") from None
