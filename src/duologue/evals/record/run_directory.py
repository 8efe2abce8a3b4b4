"""The directory of a run: one result for each trial, whatever happens to the processes that write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from duologue.evals.exceptions import RecordError
from duologue.evals.record.attempt import Attempt, InterruptedAttempt, is_running
from duologue.evals.record.key import TrialKey
from duologue.evals.record.manifest import RECORD_FORMAT, RunManifest
from duologue.evals.record.trial_record import TrialRecord
from duologue.evals.record.versioned_file import read_versioned, write_versioned
from duologue.evals.suite.suite import SUITE_FORMAT, Suite
from duologue.private_files import make_private_directory


class RunDirectory:
    """A run on disk.

    Several processes may use one directory: the first result of a trial stays, later ones are discarded.

    Attributes:
        path: The directory.
        manifest: What the run consists of.
    """

    def __init__(self, path: Path, manifest: RunManifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def create(cls, path: Path, manifest: RunManifest, suite: Suite) -> RunDirectory:
        """Make the directory of a new run.

        Raises:
            RecordError: There is a run already, or the suite is not the one of the manifest.
        """
        if suite.digest != manifest.suite_digest:
            raise RecordError("the manifest of a run must have the digest of its suite")
        if (path / "run.json").exists():
            raise RecordError(
                f"{path} has a run already: continue it with --resume {path}, or choose another directory"
            )
        for directory in (path, path / "trials", path / "attempts", path / "failed"):
            make_private_directory(directory)
        write_versioned(path / "suite.json", suite)
        # Last: a directory without it is not a run.
        write_versioned(path / "run.json", manifest)
        return cls(path, manifest)

    @classmethod
    def open(cls, path: Path, *, suite_digest: str | None = None) -> RunDirectory:
        """Open the directory of an earlier run.

        Args:
            path: The directory.
            suite_digest: Digest of the suite that shall be continued; None: whatever the run has.

        Raises:
            RecordError: It is not the directory of a run, is of a newer version, or has another suite.
        """
        if not (path / "run.json").is_file():
            raise RecordError(f"{path} is not the directory of a run: it has no run.json")
        manifest = read_versioned(path / "run.json", RunManifest, RECORD_FORMAT)
        if suite_digest is not None and suite_digest != manifest.suite_digest:
            raise RecordError(
                f"{path} is a run of another version of the suite {manifest.suite!r} (digest "
                f"{manifest.suite_digest[:12]}, now {suite_digest[:12]}) and cannot be continued; start a new run"
            )
        return cls(path, manifest)

    def suite(self) -> Suite:
        """Return the suite as it was read when the run was made.

        Raises:
            RecordError: The file is missing, damaged, or of a newer version.
        """
        return read_versioned(self.path / "suite.json", Suite, SUITE_FORMAT)

    def begin(self, key: TrialKey) -> Attempt:
        """Begin an attempt at a trial.

        Raises:
            RecordError: The trial has a record, or does not belong to the suite of this run.
        """
        if key.suite != self.manifest.suite_digest:
            raise RecordError(f"the trial {key} is of another suite")
        if self.has_record(key):
            raise RecordError(f"the trial {key.directory} has a record already")
        return Attempt(self.path, key)

    def has_record(self, key: TrialKey) -> bool:
        """Return True if a trial is finished."""
        return self._trial_directory(key).is_dir()

    def record(self, key: TrialKey) -> TrialRecord | None:
        """Return the record of a trial; None if it is not finished.

        Raises:
            RecordError: The directory has no result, or that of another trial.
        """
        directory = self._trial_directory(key)
        if not directory.is_dir():
            return None
        record = TrialRecord(directory)
        found = record.result().key
        if found != key:
            raise RecordError(f"{directory} has the result of another trial ({found}); remove it to run this one again")
        return record

    def records(self) -> Iterator[TrialRecord]:
        """Yield the records of the trials of this run that are finished.

        Raises:
            RecordError: A directory has no result, or that of another trial.
        """
        for key in self.manifest.trial_keys():
            if (record := self.record(key)) is not None:
                yield record

    def pending(self) -> list[TrialKey]:
        """Return the trials without a record, in the order in which they are to be run."""
        return [key for key in self.manifest.trial_keys() if not self.has_record(key)]

    def failed_attempts(self, key: TrialKey) -> int:
        """Return how many attempts at a trial were set aside."""
        base = self.path / "failed" / key.directory
        return sum(1 for _ in base.parent.glob(f"{base.name}-*")) if base.parent.is_dir() else 0

    def set_aside_missing(self) -> int:
        """Move records that do not count to the failed attempts, so that their trials are run again; return how many.

        Only those that another attempt may mend are moved: not a denied permission, nor a login that was not given.

        Raises:
            RecordError: A record is damaged.
        """
        moved = 0
        for record in list(self.records()):
            result = record.result()
            if result.outcome.rule.retry != "trial":
                continue
            base = self.path / "failed" / result.key.directory
            make_private_directory(base.parent.parent)
            make_private_directory(base.parent)
            record.directory.rename(base.with_name(f"{base.name}-{self.failed_attempts(result.key) + 1}"))
            moved += 1
        return moved

    def interrupted(self) -> list[InterruptedAttempt]:
        """Return the attempts whose processes are gone; those that run are left out."""
        found = sorted(path for path in (self.path / "attempts").iterdir() if path.is_dir())
        return [InterruptedAttempt(path) for path in found if not is_running(path)]

    def running(self) -> set[TrialKey]:
        """Return the trials of which an attempt runs, in this process or in another one."""
        found = sorted(path for path in (self.path / "attempts").iterdir() if path.is_dir())
        keys = (InterruptedAttempt(path).key for path in found if is_running(path))
        return {key for key in keys if key is not None}

    def _trial_directory(self, key: TrialKey) -> Path:
        return self.path / "trials" / key.directory
