"""Fill the disk, write to a store on it, make room, and write on. A test runs this on a small disk of its own."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from duologue.errors import StoreFull
from duologue.store.sqlite.store import SqliteStore
from tests.store.messages import info, numbered, replayed_numbers


def fill(ballast: Path) -> None:
    """Leave not a byte."""
    with ballast.open("wb", buffering=0) as file:
        size = 65536
        while size:
            try:
                file.write(b"\0" * size)
            except OSError:
                size //= 2


async def main(disk: Path) -> None:
    """Print `reported`, `opened`, `resumed` and `whole`, each when it is true."""
    async with SqliteStore(disk / "store") as store:
        log = await store.create(info("s"))
        async with await store.create(info("other")) as other:
            other.append(numbered(1))
        number = 0
        while number < 10:
            number += 1
            log.append(numbered(number))
        await log.commit()
        fill(disk / "ballast")
        try:
            while True:
                number += 1
                log.append(numbered(number))
                await log.commit()
        except StoreFull:
            print("reported")
        async with await store.open("other"):
            if await replayed_numbers(store, "other") == [1]:
                print("opened")
        (disk / "ballast").unlink()
        await log.commit()
        if await replayed_numbers(store, "s") == list(range(1, number + 1)):
            print("resumed")
    async with SqliteStore(disk / "store") as store:
        if await replayed_numbers(store, "s") == list(range(1, number + 1)):
            print("whole")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
