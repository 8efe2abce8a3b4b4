"""Command lines, split only if that needs no knowledge of a shell.

`split` accepts one simple command of plain and quoted words and nothing else. Whatever makes a shell do more than start
that one program (separators, pipes, redirection, substitution, globs, variables, comments, keywords, …), and every
character that is not known to mean itself, makes the whole line one that only a user can decide about.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

SHELL = "/bin/sh"
SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
"""Shells whose `-c` has the meaning that this module expects."""

MOST_CHARACTERS = 128 * 1024
"""Longer than the longest argument that the kernel accepts."""

PLAIN = frozenset("_-./,:=@%+")
"""Characters that mean themselves outside quotes, in addition to letters and digits."""
WHITESPACE = " \t"
ACTIVE_IN_DOUBLE_QUOTES = frozenset('$`\\!"')

_SHELL_WORDS = """
! [[ ]] case coproc do done elif else esac fi for function if in select then time until while
. : alias bg bind break builtin caller cd command compgen complete continue declare dirs disown enable eval exec exit
export fc fg getopts hash history jobs let local logout mapfile popd pushd read readarray readonly return set shift
shopt source suspend times trap type typeset ulimit umask unalias unset wait
"""
NOT_PROGRAMS = frozenset(_SHELL_WORDS.split())
"""Keywords and builtins of shells."""

SHELL_DIRECTORIES = ("", "/bin/", "/usr/bin/", "/usr/local/bin/")
SHELL_FLAGS = frozenset({"-c", "-lc"})


def split(line: str) -> list[str] | None:
    """Return program and arguments if the line is one simple command; otherwise `None`."""
    if len(line) > MOST_CHARACTERS:
        return None
    words: list[str] = []
    position = 0
    while position < len(line):
        if line[position] in WHITESPACE:
            position += 1
            continue
        found = _word(line, position)
        if found is None:
            return None
        word, position = found
        words.append(word)
    # An assignment comes before the program, and `=name` is a path in some shells.
    if not words or not words[0] or "=" in words[0] or words[0] in NOT_PROGRAMS:
        return None
    return words


def _word(line: str, position: int) -> tuple[str, int] | None:
    """Return the word that begins here and its end; `None` if it has a character with a special meaning."""
    if line[position] == "=":
        return None
    word = ""
    while position < len(line) and line[position] not in WHITESPACE:
        character = line[position]
        if character in "'\"":
            end = line.find(character, position + 1)
            quoted = line[position + 1 : end]
            if end < 0 or not quoted.isprintable() or (character == '"' and ACTIVE_IN_DOUBLE_QUOTES & set(quoted)):
                return None
            word += quoted
            position = end + 1
        elif character.isalnum() or character in PLAIN:
            word += character
            position += 1
        else:
            return None
    return word, position


def argv_of(command: str, args: Sequence[str], shell: str = SHELL) -> list[str]:
    """Return the argument list to start for a command and its arguments.

    With arguments the command is a program, whatever its name looks like. Without any it may be a whole line, as some
    agents send it: a simple command is started without a shell, anything else by one. Only the spelling decides, never
    which files exist, so that exactly what was checked is started.
    """
    if args or not command.strip():
        return [command, *args]
    return split(command) or [shell, "-c", command]


def shell_line(argv: Sequence[str]) -> str | None:
    """Return the line that a shell is given with `-c`, if the arguments are only that."""
    if len(argv) != 3 or argv[1] not in SHELL_FLAGS:
        return None
    name = argv[0].rpartition("/")[2]
    return argv[2] if name in SHELLS and argv[0].removesuffix(name) in SHELL_DIRECTORIES else None


def join(argv: Sequence[str]) -> str:
    """Join arguments to one line that a shell would split the same way."""
    return shlex.join(argv)


def program_of(word: str) -> str:
    """Return the name of a program without directory, version and suffix: `python` for `/usr/bin/python3.11`."""
    name = PurePosixPath(word.replace("\\", "/")).name.casefold().removesuffix(".exe")
    return name.rstrip("0123456789.-") or name
