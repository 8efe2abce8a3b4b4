"""Write a recording again without its secrets."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec
from msgspec import Raw, Struct, structs

from duologue.private_files import FILE_MODE
from duologue.recording.format import VERSION, Entry, Header, encode_line
from duologue.recording.reader import RecordingReader
from duologue.recording.redaction import Redactor


class RedactionResult(Struct, kw_only=True):
    """Counts of a recording that was written again.

    Attributes:
        entries: Entries that were written.
        changed: Entries from which something was removed.
        damaged: Lines that could not be read and were left out.
    """

    entries: int = 0
    changed: int = 0
    damaged: int = 0


def redact_to(source: Path, target: Path, redactor: Redactor) -> RedactionResult:
    """Write a recording to a new file, which only its owner may read.

    Raises:
        FileExistsError: The target exists.
        ValueError: The source is not a recording.
        OSError: A file cannot be read or written; then there is no target.
    """
    with RecordingReader(source) as reader:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        return _write(reader, descriptor, target, redactor)


def redact_file(path: Path, redactor: Redactor) -> RedactionResult:
    """Replace a recording by one without its secrets; whatever happens, the file is one of the two.

    Raises:
        ValueError: The file is not a recording, or is still being written.
        OSError: The file cannot be read or written; it is unchanged then.
    """
    path = path.resolve()
    with RecordingReader(path) as reader:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        result = _write(reader, descriptor, Path(name), redactor)
        if path.stat().st_size != reader.position:
            Path(name).unlink()
            raise ValueError(f"{path} is still being written, or its last line is cut; write to another file instead")
        Path(name).replace(path)
    return result


def _write(reader: RecordingReader, descriptor: int, path: Path, redactor: Redactor) -> RedactionResult:
    result, part = RedactionResult(), reader.part
    try:
        with open(descriptor, "wb") as file:
            file.write(_header(part, redactor))
            for entry in reader:
                if reader.part is not part:
                    part = reader.part
                    file.write(_header(part, redactor))
                written = _redacted(entry, redactor)
                result.entries += 1
                result.changed += written is not entry
                since_part = round(entry.t - reader.next_position().offset, 6)
                file.write(encode_line(structs.replace(written, t=since_part)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    result.damaged = reader.damaged
    return result


def _header(header: Header, redactor: Redactor) -> bytes:
    return encode_line(structs.replace(header, version=VERSION, agent=redactor.redact(header.agent))) + b"\n"


def _redacted(entry: Entry, redactor: Redactor) -> Entry:
    """Return the entry itself if nothing is to be removed from it."""
    if isinstance(entry.frame, Raw):
        frame = bytes(entry.frame)
        if not redactor.may_have_secret(frame):
            return entry
        try:
            message = msgspec.json.decode(frame)
            redacted = redactor.redact(message)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            broken = redactor.redact_broken(frame.decode("utf-8", "replace"))
            return Entry(t=entry.t, dir=entry.dir, text=broken, invalid="not JSON", redacted=True)
        if redacted == message:
            return entry
        return structs.replace(entry, frame=Raw(msgspec.json.encode(redacted)), redacted=True)
    text = None if entry.text is None else redactor.redact_broken(entry.text)
    stderr = None if entry.stderr is None else str(redactor.redact(entry.stderr))
    if (text, stderr) == (entry.text, entry.stderr):
        return entry
    return structs.replace(entry, text=text, stderr=stderr, redacted=True)
