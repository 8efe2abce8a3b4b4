"""Split a command, and explain why a program could not be started."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from duologue.errors import CommandNotFound, StartError

OWN_PROGRAM = "duologue"
LAUNCHER = ("-P", "-m", "duologue.agent.hosting.launcher")
"""Arguments with which Python runs an agent from the source that follows them."""
REAPER = str(Path(__file__).with_name("reaper.py"))
"""Program that ends what a command leaves behind; its arguments are a file for a report, and the command."""
CONFINED_BY = "bwrap"
"""Program that confines a command, which follows `--`."""

_INTERPRETER = re.compile(r"(python|pypy)[\d.]*|node")


def program_name(command: Sequence[str]) -> str:
    """Return the name of a program for messages: the script or module that an interpreter runs, else the program.

    The programs that run another one, and confine it or clean up after it, are not named.
    """
    words = list(command)
    if REAPER in words[:-2]:
        words = words[words.index(REAPER) + 2 :]
    if words[0] == CONFINED_BY and "--" in words[:-1]:
        words = words[words.index("--") + 1 :]
    program, *arguments = words
    if _INTERPRETER.fullmatch(Path(program).name) is None:
        return program
    if tuple(arguments[: len(LAUNCHER)]) == LAUNCHER:
        del arguments[: len(LAUNCHER)]
    names = (each for each in arguments if each == "-c" or not each.startswith("-"))
    name = next(names, "-c")
    return program if name == "-c" else name


def reaped(report: str | Path = os.devnull) -> list[str]:
    """Return the words before a command that end what it leaves behind; none where the system cannot do that.

    Args:
        report: File for the command lines of what was left.
    """
    if sys.platform != "linux" or not sys.executable:
        return []
    return [sys.executable, "-I", "-S", REAPER, str(report)]


def check_program(command: Sequence[str], env: Mapping[str, str], cwd: str | Path | None) -> None:
    """Check that the program of a command exists, before another program is to start it.

    Raises:
        StartError: It does not, or it cannot be run.
    """
    import shutil

    path = Path(cwd or ".") / command[0] if os.sep in command[0] else None
    if path is None:
        is_program = shutil.which(command[0], path=os.pathsep.join(os.get_exec_path(env))) is not None
    else:
        is_program = path.is_file() and os.access(path, os.X_OK)
    if not is_program:
        is_there = path is not None and path.exists()
        raise explain_failure(command, env, cwd, PermissionError() if is_there else FileNotFoundError())


def split_command(command: str | Sequence[str]) -> list[str]:
    """Return the program and its arguments. A string is split as a shell would, but no shell runs.

    `duologue` is run by this interpreter, so that it is the same version, and is found in an environment not activated.

    Raises:
        CommandNotFound: The command is empty.
        StartError: The string cannot be split.
    """
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise StartError(f"cannot split the command {command!r}: {error}") from error
    if not words or not words[0].strip():
        raise CommandNotFound("the command is empty; name the program that runs the agent")
    if words[0] == OWN_PROGRAM and sys.executable:
        # Without -P, Python would import modules from the working directory, which may be a project of other people.
        return [sys.executable, "-P", "-m", OWN_PROGRAM, *words[1:]]
    return words


def explain_failure(
    command: Sequence[str], env: Mapping[str, str], cwd: str | Path | None, error: OSError | ValueError
) -> StartError:
    """Return the error for a program that could not be started."""
    program = command[0]
    if cwd is not None and not Path(cwd).is_dir():
        return StartError(f"cannot start {program!r}: the working directory {str(cwd)!r} does not exist")
    if isinstance(error, FileNotFoundError):
        return _not_found(program, env, cwd)
    if isinstance(error, PermissionError):
        return CommandNotFound(f"{program!r} cannot be run: make it executable (chmod +x), or check its directory")
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return StartError(
            f"{program!r} is not a program for this machine: it was built for another processor, or it is a script "
            "without a first line such as #!/bin/sh"
        )
    if isinstance(error, OSError) and error.errno == errno.EAGAIN:
        return StartError(f"cannot start {program!r}: the limit of processes is reached ({error.strerror})")
    return StartError(f"cannot start {program!r}: {error}")


def _not_found(program: str, env: Mapping[str, str], cwd: str | Path | None) -> CommandNotFound:
    if os.sep in program:
        where = Path(cwd or ".") / program
        if where.exists():
            return CommandNotFound(f"{program!r} exists, but the interpreter its first line names does not")
        return CommandNotFound(f"no such file: {program!r}; check the path")
    import shutil

    directories = os.get_exec_path(env)
    if found := shutil.which(program, path=os.pathsep.join(directories)):
        return CommandNotFound(f"{found!r} exists, but the interpreter its first line names does not")
    missing = f"no command {program!r} in the {len(directories)} directories of PATH"
    if " " in program:
        return CommandNotFound(f"{missing}; pass its arguments as `args`, or in a list: {program.split()}")
    return CommandNotFound(f"{missing}; install it, or give its full path")
