"""Define the argument that names a recording."""

from __future__ import annotations

import argparse
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RECORDING = "the recording: a path, or its name in the user's data directory (a unique beginning is enough)"


def add_recording(parser: argparse.ArgumentParser, name: str = "file", **options: Any) -> None:
    """Add an argument for a recording: a path, or the name of one in the data directory, which becomes its path."""
    options = {"metavar": "FILE", "help": RECORDING, **options}
    parser.add_argument(name, type=_path_of_recording, **options)


def _path_of_recording(text: str) -> str:
    if os.path.exists(text):  # noqa: PTH110  (nothing is imported for it)
        return text
    from duologue.config.recordings import named_recording

    try:
        return str(named_recording(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
