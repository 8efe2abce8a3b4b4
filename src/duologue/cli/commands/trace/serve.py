"""`duologue trace serve`: recordings in a browser, from a server on this machine."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path

from duologue.cli.exit_codes import UsageError
from duologue.config.recordings import recordings_folder
from duologue.private_files import make_private_directory


def serve(arguments: argparse.Namespace) -> int:
    """Serve the page until a signal stops the program; return the exit code."""
    try:
        from duologue.inspector.app import InspectorApp
        from duologue.transports.server.auth import AccessControl
        from duologue.transports.server.limits import Limits
        from duologue.transports.server.run import ServerAddress, new_token, run
        from duologue.transports.server.tokens import single_token
    except ImportError as error:
        raise UsageError(f"trace serve needs {error.name}; install the extra: pip install 'duologue[remote]'") from None
    from duologue.inspector.recording_folder import RecordingFolder

    try:
        folder = RecordingFolder(_path(arguments.path))
    except OSError as error:
        raise UsageError(f"{arguments.path}: {error.strerror}") from None
    token, limits, address = new_token(), Limits(), ServerAddress(port=arguments.port)
    app = InspectorApp(folder, AccessControl(single_token(token), limits), limits)
    opens = sys.stdout.isatty() if arguments.open is None else arguments.open
    private = Path(tempfile.mkdtemp(prefix="duologue-")) if opens else None

    def started(port: int) -> None:
        url = address.url(port, "http", token, "/")
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        if private is not None:
            open_page(url, private)

    try:
        return asyncio.run(run(app, address, started))
    finally:
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)


def open_page(url: str, folder: Path, open_in_browser: Callable[[str], bool] = webbrowser.open) -> None:
    """Open a URL in a browser through a file that only its owner can read: a command line is seen by all users."""
    file = folder / "open.html"
    file.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={url}"><a href="{url}">open</a>\n')
    if not open_in_browser(file.as_uri()):
        sys.stderr.write("no browser was found: open the address yourself\n")


def _path(given: str | None) -> Path:
    if given is not None:
        return Path(given)
    folder = recordings_folder()
    make_private_directory(folder)
    return folder
