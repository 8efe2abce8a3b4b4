"""The files of an attempt as bytes, for workers that do not see the run directory."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from pathlib import Path

from msgspec import structs

from duologue.evals.engines.task import AttemptReport
from duologue.evals.exceptions import EvalError
from duologue.evals.record.attempt import KEY_FILE, LINK
from duologue.evals.record.outcomes import TrialOutcome
from duologue.evals.record.result import TrialResult
from duologue.evals.record.run_directory import RunDirectory
from duologue.registry.archive import ArchiveLimits, ArchiveRejected, extract

MOST_ARCHIVE_BYTES = 64 << 20
"""Size of the largest archive that a worker returns; the run directory of larger ones must be shared."""
MOST_EXTRACTED_BYTES = 1 << 30
_OWN_FILES = {KEY_FILE, LINK, "result.json", "grades.json"}
"""Files of an attempt that are written when it is stored."""


def pack(directory: Path) -> bytes:
    """Return the files of an attempt as a compressed tar file; links that lead out of it are left out.

    Raises:
        EvalError: They are too large.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as archive:
        for folder, folders, names in os.walk(directory):
            for name in sorted([*names, *folders]):
                path = Path(folder, name)
                inside = path.relative_to(directory)
                if str(inside) in _OWN_FILES or not _is_packed(path, directory):
                    continue
                archive.add(path, arcname=str(inside), recursive=False)
                if content.tell() > MOST_ARCHIVE_BYTES:
                    raise EvalError(
                        f"the record of the trial is larger than {MOST_ARCHIVE_BYTES >> 20} MB: put the run directory "
                        "on a path that the workers see"
                    )
    return content.getvalue()


def _is_packed(path: Path, directory: Path) -> bool:
    if path.is_symlink():
        target = path.readlink()
        return not target.is_absolute() and (path.parent / target).resolve().is_relative_to(directory.resolve())
    return path.is_file() or path.is_dir()


def store_report(run: RunDirectory, report: AttemptReport) -> AttemptReport:
    """Put the attempt of a report into a run directory: as the record of its trial, or set aside.

    Return the report; that of the record, if the trial has one already.

    Raises:
        RecordError: The trial has a record that is damaged.
    """
    known = run.record(report.key)
    if known is None:
        with run.begin(report.key) as attempt:
            if report.files:
                report = _unpacked(report, attempt.directory)
            if not report.is_final:
                attempt.set_aside(report.result)
                return structs.replace(report, is_stored=True, files=b"")
            if attempt.commit(report.result, report.grades):
                return structs.replace(report, is_stored=True, files=b"")
        known = run.record(report.key)
    assert known is not None, "there is a record"
    return structs.replace(
        report, result=known.result(), grades=known.grades(), is_final=True, is_stored=True, files=b""
    )


def _unpacked(report: AttemptReport, directory: Path) -> AttemptReport:
    """Write the files of a report into the directory of an attempt; return the report, or that of a failure."""
    with tempfile.TemporaryDirectory(dir=directory, prefix=".files-") as folder:
        archive, content = Path(folder, "files.tar.gz"), Path(folder, "content")
        archive.write_bytes(report.files)
        content.mkdir()
        try:
            extract(archive, content, "", ArchiveLimits(bytes=MOST_EXTRACTED_BYTES))
        except ArchiveRejected as error:
            detail = f"the worker {report.worker} returned files that cannot be used: {error}"
            outcome = TrialOutcome(kind="harness_failed", reason="ArchiveRejected", detail=detail)
            result = TrialResult(key=report.key, outcome=outcome, attempts=report.result.attempts)
            return structs.replace(report, result=result, grades=None)
        for each in content.iterdir():
            if each.name not in _OWN_FILES:
                each.rename(directory / each.name)
    return report
