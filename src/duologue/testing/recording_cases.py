"""Recordings as the cases of a test."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

PATTERN = "*.acp"


def acp_recordings(
    directory: str | Path, *, pattern: str = PATTERN, argument: str = "recording"
) -> pytest.MarkDecorator:
    """Return a decorator that runs a test once for each recording of a directory.

    The test gets the path as the argument `recording`:
    `@acp_recordings("recordings/")`, then `await acp.replay(recording, my_agent)`.

    Args:
        directory: Where the recordings are; a relative path is relative to the file of the test.
        pattern: Names of the files; `**/*.acp` includes those in subdirectories.
        argument: Name of the test's argument.

    Raises:
        ValueError: The directory has no such file: a test without cases would pass.
    """
    import pytest

    caller = inspect.stack()[1].filename
    folder = Path(caller).parent / directory
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise ValueError(
            f"there is no recording {pattern} in {folder}; make one with `duologue tap -o FILE -- COMMAND`"
        )
    return pytest.mark.parametrize(argument, paths, ids=[str(path.relative_to(folder)) for path in paths])
