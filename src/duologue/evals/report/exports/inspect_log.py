"""Write runs as logs of Inspect, version 2 of their format: one log for each agent, with a sample for each trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import msgspec

from duologue.evals.record.key import directory_name
from duologue.evals.report.exports.inspect_header import LOG_VERSION, log_header, reductions_of
from duologue.evals.report.exports.inspect_sample import samples_of, summary_of
from duologue.evals.report.exports.output_file import replaced_file
from duologue.evals.report.exports.run_records import AgentRecords, agent_records, parse_time
from duologue.evals.report.run_summary import RunSummary

LogFormat: TypeAlias = Literal["eval", "json"]


def write_inspect_logs(
    runs: Sequence[RunSummary], directory: str | Path, *, log_format: LogFormat = "eval"
) -> list[Path]:
    """Write a log of Inspect for each agent of each run; return the files.

    Args:
        runs: The runs.
        directory: Where the logs are written; it is made if it does not exist.
        log_format: `eval`, the compressed format, or `json`.

    Raises:
        RecordError: A run is not a directory with records.
        OSError: A file cannot be written.
    """
    write = _write_archive if log_format == "eval" else _write_json
    written: list[Path] = []
    for records in agent_records(runs):
        path = Path(directory, f"{_file_name(records)}.{log_format}")
        with replaced_file(path) as file:
            write(file, records)
        written.append(path)
    return written


def _file_name(records: AgentRecords) -> str:
    """Return a name as Inspect gives it: time, task, model and id, between which there are underscores."""
    run = records.run.manifest
    time = parse_time(run.started)
    stamp = "1970-01-01T00-00-00" if time is None else f"{time:%Y-%m-%dT%H-%M-%S}"
    words = (directory_name(each).replace("_", "-") for each in (run.suite, records.agent.label, run.id))
    return "_".join((f"{stamp}+00-00", *words))


def _write_json(file: BinaryIO, records: AgentRecords) -> None:
    """Write one object; its header is before its samples, so that readers need not read them."""
    header = msgspec.json.encode(log_header(records))
    file.write(header.removesuffix(b"}") + b',"samples":[')
    samples = enumerate(samples_of(records))
    file.writelines((b"," if number else b"") + msgspec.json.encode(sample) for number, sample in samples)
    file.write(b'],"reductions":' + msgspec.json.encode(reductions_of(records)) + b"}\n")


def _write_archive(file: BinaryIO, records: AgentRecords) -> None:
    """Write a zip archive with a member for each sample."""
    header = log_header(records)
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        add = _adder(archive)
        add("_journal/start.json", {"version": LOG_VERSION, "eval": header["eval"], "plan": header["plan"]})
        add("summaries.json", list(_add_samples(add, records)))
        add("reductions.json", reductions_of(records))
        add("header.json", header)


def _add_samples(add: Callable[[str, Any], None], records: AgentRecords) -> Iterator[dict[str, Any]]:
    """Write the samples; yield the summary of each."""
    for sample in samples_of(records):
        add(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
        yield summary_of(sample)


def _adder(archive: ZipFile) -> Callable[[str, Any], None]:
    def add(name: str, value: Any) -> None:
        # Without a time: the same run gives the same file.
        entry = ZipInfo(name)
        entry.compress_type = ZIP_DEFLATED
        entry.external_attr = 0o600 << 16
        archive.writestr(entry, msgspec.json.encode(value))

    return add
