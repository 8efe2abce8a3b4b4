"""Every state in which a crash may leave the files: what was not synced may be there, in part, or not at all."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.store.faulty_files import Operation

__all__ = ["CrashState", "Files", "crash_states", "last_mark", "replayed", "write_files"]

Files = dict[str, bytes]


class CrashState(NamedTuple):
    """The files after a crash, and how many operations were done before it."""

    files: Files
    done: int
    kind: str


def crash_states(before: Files, operations: Sequence[Operation], chance: random.Random) -> Iterator[CrashState]:
    """Yield for each moment: the process is killed, the power fails, or it fails and some of the rest was written."""
    for done in range(len(operations) + 1):
        past = operations[:done]
        yield CrashState(replayed(before, past), done, "killed")
        unsynced = _unsynced(past)
        synced = [operation for index, operation in enumerate(past) if index not in unsynced]
        yield CrashState(replayed(before, synced), done, "power cut, nothing unsynced survived")
        if unsynced:
            yield CrashState(replayed(before, _some_of(past, unsynced, chance)), done, "power cut, some survived")
        if past and past[-1].kind == "write":
            cut = chance.randrange(len(past[-1].data))
            torn = past[-1]._replace(data=past[-1].data[:cut])
            yield CrashState(replayed(before, [*past[:-1], torn]), done, f"last write cut at {cut}")


def replayed(before: Files, operations: Sequence[Operation]) -> Files:
    """Return the files after these operations."""
    files = {name: bytearray(data) for name, data in before.items()}
    for operation in operations:
        content = files.get(operation.name, bytearray())
        match operation.kind:
            case "create":
                files.setdefault(operation.name, content)
            case "write":
                content.extend(b"\0" * (operation.offset - len(content)))
                content[operation.offset : operation.offset + len(operation.data)] = operation.data
                files[operation.name] = content
            case "truncate":
                del content[operation.offset :]
            case "delete":
                files.pop(operation.name, None)
            case "sync" | "mark":
                pass
    return {name: bytes(content) for name, content in files.items()}


def last_mark(operations: Sequence[Operation]) -> int:
    """Return the numbers that were acknowledged before the crash."""
    return max((int(operation.data) for operation in operations if operation.kind == "mark"), default=0)


def write_files(directory: Path, files: Files) -> None:
    """Put them where a store can be opened."""
    directory.mkdir(parents=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)


def _unsynced(operations: Sequence[Operation]) -> set[int]:
    """Return the operations that no sync of their file followed."""
    waiting: dict[str, set[int]] = {}
    for index, operation in enumerate(operations):
        if operation.kind == "sync":
            waiting.pop(operation.name, None)
        elif operation.kind != "mark":
            waiting.setdefault(operation.name, set()).add(index)
    return {index for indices in waiting.values() for index in indices}


def _some_of(past: Sequence[Operation], unsynced: set[int], chance: random.Random) -> list[Operation]:
    """Yield possible results of unsynced operations, as a disk writes in any order: done, not done, or done in part."""
    some: list[Operation] = []
    for index, operation in enumerate(past):
        if index not in unsynced or chance.random() < 0.4:
            some.append(operation)
        elif operation.kind == "write" and chance.random() < 0.5:
            some.append(operation._replace(data=operation.data[: chance.randrange(len(operation.data))]))
    return some
