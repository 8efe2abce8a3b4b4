"""Command lines, understood or refused: nothing is guessed about what a shell would make of them.

`words_of` takes one simple command made of plain and quoted words and nothing else. Whatever makes a shell do more than
start that one program (separators, pipes, redirection, substitution, globs, variables, comments, keywords, …), and
whatever is not known to be harmless, makes the whole line one that only a person can judge.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

__all__ = ["SHELL", "SHELLS", "argv_of", "join", "program_of", "shell_line", "split"]

SHELL = "/bin/sh"
SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
"""Shells whose `-c` means what this module reads."""

MOST_CHARACTERS = 128 * 1024
"""Longer than the longest argument the kernel takes."""

PLAIN = frozenset("_-./,:=@%+")
"""Signs that mean themselves outside quotes, beside letters and digits."""
BLANKS = " \t"
ACTIVE_IN_DOUBLE_QUOTES = frozenset('$`\\!"')

_SHELL_WORDS = """
! [[ ]] case coproc do done elif else esac fi for function if in select then time until while
. : alias bg bind break builtin caller cd command compgen complete continue declare dirs disown enable eval exec exit
export fc fg getopts hash history jobs let local logout mapfile popd pushd read readarray readonly return set shift
shopt source suspend times trap type typeset ulimit umask unalias unset wait
"""
NOT_PROGRAMS = frozenset(_SHELL_WORDS.split())
"""First words that make a shell do something itself."""

PLACES_OF_SHELLS = ("", "/bin/", "/usr/bin/", "/usr/local/bin/")
SHELL_FLAGS = frozenset({"-c", "-lc"})


def split(line: str) -> list[str] | None:
    """The program and its arguments, if the line is that and nothing more; None if it is anything else."""
    if len(line) > MOST_CHARACTERS:
        return None
    words: list[str] = []
    at = 0
    while at < len(line):
        if line[at] in BLANKS:
            at += 1
            continue
        found = _word(line, at)
        if found is None:
            return None
        word, at = found
        words.append(word)
    # An assignment comes before the program, and `=name` is a path in some shells.
    if not words or not words[0] or "=" in words[0] or words[0] in NOT_PROGRAMS:
        return None
    return words


def _word(line: str, at: int) -> tuple[str, int] | None:
    """The word that begins here and where it ends; None if it holds anything active."""
    if line[at] == "=":
        return None
    word = ""
    while at < len(line) and line[at] not in BLANKS:
        sign = line[at]
        if sign in "'\"":
            end = line.find(sign, at + 1)
            quoted = line[at + 1 : end]
            if end < 0 or not quoted.isprintable() or (sign == '"' and ACTIVE_IN_DOUBLE_QUOTES & set(quoted)):
                return None
            word += quoted
            at = end + 1
        elif sign.isalnum() or sign in PLAIN:
            word += sign
            at += 1
        else:
            return None
    return word, at


def argv_of(command: str, args: Sequence[str], shell: str = SHELL) -> list[str]:
    """What is started for a command and its arguments.

    With arguments the command is a program, whatever its name looks like. Without any it may be a whole line, as some
    agents send it: a simple command is started without a shell, anything else by one. Only how it is written decides,
    never what exists: what was judged is what is started.
    """
    if args or not command.strip():
        return [command, *args]
    return split(command) or [shell, "-c", command]


def shell_line(argv: Sequence[str]) -> str | None:
    """The line that a shell is given to run, if that is all this is."""
    if len(argv) != 3 or argv[1] not in SHELL_FLAGS:
        return None
    name = argv[0].rpartition("/")[2]
    return argv[2] if name in SHELLS and argv[0].removesuffix(name) in PLACES_OF_SHELLS else None


def join(argv: Sequence[str]) -> str:
    """The arguments as one line that a shell would split the same way."""
    return shlex.join(argv)


def program_of(word: str) -> str:
    """The name of a program without its directory, version and ending: `python` for `/usr/bin/python3.11`."""
    name = PurePosixPath(word.replace("\\", "/")).name.casefold().removesuffix(".exe")
    return name.rstrip("0123456789.-") or name
