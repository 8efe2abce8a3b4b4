"""Run npm and uv: with few environment variables, a time limit, and their output in the error if they fail."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from duologue.registry.index import RegistryError
from duologue.sanitize import sanitize

TOOL_SECONDS = 1800.0
"""How long one run of npm or uv may take."""

SHOWN_LINES = 15
"""Lines of a tool's output in an error."""

PASSED_ON = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|(?i:\w+_proxy)|SSL_CERT_\w+|NODE_EXTRA_CA_CERTS"
    r"|(?i:npm_config_\w+)|UV_\w+|PYENV_\w+|SYSTEMROOT|APPDATA|LOCALAPPDATA|USERPROFILE|COMSPEC|PATHEXT|TEMP|TMP"
)
"""Environment variables that npm and uv get; API keys are not among them."""


class ToolFailed(RegistryError):
    """npm or uv failed; the message has the end of its output."""


def run_tool(
    command: Sequence[str | Path], directory: Path, env: Mapping[str, str] | None = None, seconds: float = TOOL_SECONDS
) -> str:
    """Run a package tool in a directory and return its standard output.

    Args:
        command: The command line.
        directory: Where it runs.
        env: Environment variables in addition to those that are passed on.
        seconds: How long it may take.

    Raises:
        ToolFailed: It failed, took too long, or cannot be started.
    """
    words = [str(word) for word in command]
    variables = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    with TemporaryFile() as output, TemporaryFile() as errors:
        try:
            # A group of its own, so that what it started ends with it.
            process = subprocess.Popen(
                words,
                cwd=directory,
                env={**variables, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolFailed(f"{words[0]} cannot be started: {error.strerror}") from None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ToolFailed(f"{_name(words)} did not end within {seconds:g} s") from None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
        if code != 0:
            errors.seek(0)
            raise ToolFailed(
                f"{_name(words)} failed (exit code {code}):\n{_shown(text + errors.read().decode('utf-8', 'replace'))}"
            )
        return text


def _name(words: Sequence[str]) -> str:
    return f"`{Path(words[0]).name} {' '.join(word for word in words[1:3] if not word.startswith('-'))}`"


def _shown(text: str) -> str:
    """Return the lines of a tool's output that tell why it failed: errors rather than warnings and help."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("npm warn", "npm notice"))]
    lines = [line.removeprefix("npm error").strip() or "" for line in lines]
    return "\n".join(f"  {sanitize(line)}" for line in list(dict.fromkeys(filter(None, lines)))[:SHOWN_LINES])
