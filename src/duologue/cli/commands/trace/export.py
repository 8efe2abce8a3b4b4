"""`duologue trace export`: write a recording as a document, or as a page for a browser."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from io import TextIOBase
from pathlib import Path

from duologue.cli.console.safe_output import SafeOutput, safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.inspector.export import write_export
from duologue.inspector.recording_index import RecordingIndex
from duologue.private_files import FILE_MODE
from duologue.recording.reader import RecordingReader
from duologue.trace.conversation import ConversationReader
from duologue.trace.export.document import write_json
from duologue.trace.export.markdown import write_markdown
from duologue.trace.export.mermaid import write_mermaid
from duologue.trace.frames import Tracer
from duologue.trace.item_queue import ConversationItem

Export = Callable[[RecordingReader, TextIOBase], None]


def export(arguments: argparse.Namespace) -> int:
    """Write the document to a file or to stdout."""
    output = None if arguments.output is None else Path(arguments.output)
    name = (
        "html"
        if arguments.html
        else arguments.format or SUFFIXES.get("" if output is None else output.suffix.lower(), "markdown")
    )
    try:
        with RecordingReader(Path(arguments.file)) as reader:
            if output is None:
                FORMATS[name](reader, safe(sys.stdout, is_exact=True))
            else:
                _write_file(reader, output, FORMATS[name])
            damaged = reader.damaged
    except (FileNotFoundError, IsADirectoryError, PermissionError, ValueError) as error:
        raise UsageError(str(error)) from None
    if damaged:
        sys.stderr.write(f"duologue: {damaged:,} lines of {arguments.file} are damaged and were left out\n")
    return ExitCode.OK


def _write_file(reader: RecordingReader, output: Path, write: Export) -> None:
    """Write a file that only its owner may read, and never over the recording itself."""
    if output.exists() and output.samefile(reader.path):
        raise ValueError(f"{output} is the recording itself; name another file")
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        write(reader, SafeOutput(file, is_exact=True))


def _of_conversation(write: Callable[..., None]) -> Export:
    return lambda reader, out: write(reader.header, _items(reader), out)


def _items(reader: RecordingReader) -> Iterator[ConversationItem]:
    conversation = ConversationReader()
    yield from conversation.read(Tracer().trace(reader))
    yield from conversation.rest()


def _write_html(reader: RecordingReader, out: TextIOBase) -> None:
    with RecordingIndex(reader.path) as index:
        info = write_export(out, reader.path.name, index)
    if info.is_cut:
        sys.stderr.write(f"duologue: the page has only the first {info.frames:,} messages\n")
    if info.contents is not None:
        sys.stderr.write(f"duologue: the page has the contents of the first {info.contents:,} messages only\n")


FORMATS: dict[str, Export] = {
    "markdown": _of_conversation(write_markdown),
    "json": _of_conversation(write_json),
    "mermaid": _of_conversation(write_mermaid),
    "html": _write_html,
}
"""The formats by the names of `--format`, which `cli.parsers.recording_analysis` lists."""
SUFFIXES = {".md": "markdown", ".json": "json", ".mmd": "mermaid", ".mermaid": "mermaid", ".html": "html"}
"""The formats by the endings of files."""
