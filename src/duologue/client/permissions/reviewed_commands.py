"""Commands that a rule ending in ` *` may allow, with every option and operand that such a rule covers.

Programs have too many ways to run another program, to write a file, or to read one elsewhere, for a list of those ways
to be complete: options may be abbreviated (`--upload-pa=`), bundled (`-nO/evil`) and glued to their values. So this
table lists what is accepted: an option passes only as it is written here, in full.

What is listed runs no program, writes no file (git may update its index), and names no file outside the directory that
the command runs in, nor one whose name suggests secrets. Short options that differ between the GNU and BSD versions of
a program in whether they take a value are left out. What git does because of its settings (`.git/config`, the user's
own) does not depend on the arguments; those files are protected from agents.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from duologue.client.permissions.sensitive_paths import is_secret_path

Kind: TypeAlias = Literal["number", "word", "text", "format", "path"]
"""Kind of a value or an operand. A path may also be a revision of git without a colon."""

FORMS: dict[Kind, re.Pattern[str]] = {
    "number": re.compile(r"\+?[0-9]{1,9}(,\+?[0-9]{1,9})?"),
    "word": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,+-]*"),
    "text": re.compile(r"[^\0]*", re.DOTALL),
    # `%G?` and its like make git run a program that checks signatures.
    "format": re.compile(r"[^\0G]*", re.DOTALL),
    # `@file`, `host:path`, `ext::…`, `revision:path` and `:(magic)` mean something else than a file of this name.
    "path": re.compile(r"[^\0:@][^\0:]{0,4095}", re.DOTALL),
}

MOST_ARGUMENTS = 256
"""More than a user reads; each operand costs an access to the file system."""
NUMBERED = re.compile(r"-[0-9]{1,9}")
"""`-5`, for which the table has `-NUMBER`."""


@dataclass(frozen=True)
class ReviewedCommand:
    """One program, or one subcommand of a program, and the arguments that are accepted.

    Attributes:
        name: Words of a rule before ` *`.
        flags: Options without a value, exactly as they are written.
        values: Options with a value, and its kind. A long one takes it after `=`, a short one glued to it; only a
            number may also follow as a word of its own.
        operands: Kinds of the operands, in order; the last one is for all that follow. Empty: there are none.
        is_bundled: `-la` means `-l -a`.
        left_out: What the program can do that is not listed, and why; read it before you add an option.
    """

    name: str
    flags: frozenset[str]
    values: Mapping[str, Kind]
    operands: tuple[Kind, ...]
    left_out: str
    is_bundled: bool = True
    words: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.name.split()))

    def accepts(self, arguments: Sequence[str], cwd: str) -> bool:
        """Return True if these arguments are listed and name only files in `cwd`, whose path has no links."""
        operands = self._operands(arguments)
        return operands is not None and all(_is_accepted(kind, word, cwd) for kind, word in operands)

    def files(self, arguments: Sequence[str]) -> list[str]:
        """Return the operands that name files, as they are written; nothing if the arguments are not listed."""
        return [word for kind, word in self._operands(arguments) or () if kind == "path"]

    def _operands(self, arguments: Sequence[str]) -> list[tuple[Kind, str]] | None:
        """Return the operands with their kinds; `None` if an option, or the number of operands, is not listed."""
        if len(arguments) > MOST_ARGUMENTS:
            return None
        words, operands = iter(arguments), list[str]()
        for word in words:
            if word == "--":
                operands += words
            elif word == "-" or not word.startswith("-"):
                operands.append(word)
            elif not self._has_option(word, words):
                return None
        if operands and not self.operands:
            return None
        return [(self.operands[min(position, len(self.operands) - 1)], word) for position, word in enumerate(operands)]

    def _has_option(self, word: str, following: Iterator[str]) -> bool:
        if word in self.flags - {"-NUMBER"} or (NUMBERED.fullmatch(word) and "-NUMBER" in self.flags):
            return True
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            kind = self.values.get(name)
            return bool(equals) and kind is not None and FORMS[kind].fullmatch(value) is not None
        return self._has_letters(word[1:], following)

    def _has_letters(self, letters: str, following: Iterator[str]) -> bool:
        for position, letter in enumerate(letters, start=1):
            kind = self.values.get(f"-{letter}")
            if kind is not None:
                value = letters[position:] or (next(following, "") if kind == "number" else "")
                return bool(value) and FORMS[kind].fullmatch(value) is not None
            if not self.is_bundled or f"-{letter}" not in self.flags:
                return False
        return True


def reviewed(words: Sequence[str]) -> ReviewedCommand | None:
    """Return the entry that these words begin with; `None` if there is none."""
    return next((entry for entry in REVIEWED if entry.words == tuple(words[: len(entry.words)])), None)


def _is_accepted(kind: Kind, word: str, cwd: str) -> bool:
    if FORMS[kind].fullmatch(word) is None:
        return False
    return kind != "path" or _is_inside(word, cwd)


def _is_inside(path: str, cwd: str) -> bool:
    """Return True if a path stays in the directory, as written and without links, and its name suggests no secrets."""
    if not cwd:
        return False
    written = os.path.join(cwd, path)  # noqa: PTH118 -- a Path would drop what is looked for
    root = cwd.rstrip("/") + "/"
    try:
        resolved = os.path.realpath(written)
    except ValueError:  # not a path that this system can have
        return False
    for found in (os.path.normpath(written), resolved):
        if not f"{found}/".startswith(root) or is_secret_path(found[len(root) :]):
            return False
    return True


# --- the table


def _entry(
    name: str, flags: str, values: str, operands: str, left_out: str, *, is_bundled: bool = True
) -> ReviewedCommand:
    """Parse one entry; values are written as `--name=kind`."""
    value_kinds = cast("dict[str, Kind]", dict(each.split("=") for each in values.split()))
    operand_kinds = cast("tuple[Kind, ...]", tuple(operands.split()))
    return ReviewedCommand(name, frozenset(flags.split()), value_kinds, operand_kinds, left_out, is_bundled)


_DIFF_FLAGS = """
-p --patch -s --no-patch -w --ignore-all-space -b --ignore-space-change --ignore-blank-lines
--stat --shortstat --numstat --summary --name-only --name-status --raw --check --word-diff
--minimal --patience --histogram --no-renames --color --no-color --no-ext-diff --no-textconv
"""
_DIFF_VALUES = "-U=number --unified=number --diff-filter=word --color=word --word-diff=word --abbrev=number"
_LOG_FLAGS = f"""
{_DIFF_FLAGS} -NUMBER --oneline --graph --reverse --all --branches --tags --remotes --decorate --no-decorate
--merges --no-merges --first-parent --follow --date-order --topo-order --author-date-order --abbrev-commit
--no-abbrev-commit --full-history --left-right --relative-date -i --regexp-ignore-case -E -F
"""
_LOG_VALUES = f"""
{_DIFF_VALUES} -n=number --max-count=number --skip=number --since=text --until=text --after=text --before=text
--author=text --committer=text --grep=text --format=format --pretty=format --date=text --decorate=word -S=text -G=text
"""
_DIFF_LEFT_OUT = (
    "--output writes a file; --ext-diff and --textconv run programs; -O reads a file; --no-index leaves the "
    "repository; --submodule goes on in another one"
)

REVIEWED: tuple[ReviewedCommand, ...] = (
    _entry(
        "cat",
        "-A -b -e -E -n -s -t -T -v --number --number-nonblank --show-all --show-ends --show-tabs --squeeze-blank",
        "",
        "path",
        "nothing that is known",
    ),
    _entry("echo", "-n", "", "text", "-e writes control characters"),
    _entry(
        "grep",
        """
        -NUMBER -c -E -F -h -H -i -l -L -n -o -q -s -v -w -x --count --extended-regexp --files-with-matches
        --files-without-match --fixed-strings --ignore-case --invert-match --line-number --line-regexp --no-filename
        --no-messages --only-matching --quiet --with-filename --word-regexp --color
        """,
        """
        -A=number -B=number -C=number -m=number --after-context=number --before-context=number --context=number
        --max-count=number --color=word
        """,
        "text path",
        "-e and -f make the first operand a file; -r and -R read what no operand names; -z runs programs in places",
    ),
    _entry(
        "head",
        "-NUMBER -q -v --quiet --verbose",
        "-c=number -n=number --bytes=number --lines=number",
        "path",
        "nothing that is known",
    ),
    _entry(
        "ls",
        """
        -1 -a -A -d -F -g -h -i -l -n -o -p -r -R -s -S -t --all --almost-all --directory --human-readable --inode
        --recursive --reverse --size --color
        """,
        "--color=word --sort=word --time-style=word",
        "path",
        "-H and -L follow links; -I, -T and -w take a value in some versions only",
    ),
    _entry(
        "tail",
        "-NUMBER -q -v --quiet --verbose",
        "-c=number -n=number --bytes=number --lines=number",
        "path",
        "-f and -F never end",
    ),
    _entry("wc", "-c -l -L -m -w --bytes --chars --lines --words", "", "path", "--files0-from reads names from a file"),
    _entry("which", "-a", "", "word", "--read-alias and --read-functions read definitions"),
    _entry(
        "git blame",
        "-w -s -e -l -t -f -n -p --porcelain --show-email --show-name --show-number --color-lines",
        "-L=number --date=text --abbrev=number",
        "path",
        "--contents, --ignore-revs-file and -S read a file; --textconv runs programs",
        is_bundled=False,
    ),
    _entry(
        "git branch",
        "-a -r -v -vv --all --remotes --verbose --list --show-current --color --no-color",
        "--color=word",
        "",
        "operands make branches; -d, -D, -m and -f change them; --edit-description runs an editor; --format runs gpg",
        is_bundled=False,
    ),
    _entry(
        "git diff",
        f"{_DIFF_FLAGS} --cached --staged --quiet --exit-code -R",
        _DIFF_VALUES,
        "path",
        _DIFF_LEFT_OUT,
        is_bundled=False,
    ),
    _entry(
        "git grep",
        """
        -c -E -F -h -H -i -l -L -n -o -p -v -w -W --count --extended-regexp --files-with-matches --fixed-strings
        --function-context --ignore-case --invert-match --line-number --only-matching --show-function --word-regexp
        --cached --heading --break --color --no-color
        """,
        """
        -A=number -B=number -C=number --after-context=number --before-context=number --context=number
        --max-depth=number
        """,
        "text path",
        "-O and --open-files-in-pager run a program; -f reads a file; --no-index and --untracked leave the repository; "
        "-e makes the first operand a file; --textconv runs programs",
        is_bundled=False,
    ),
    _entry(
        "git log", _LOG_FLAGS, _LOG_VALUES, "path", f"{_DIFF_LEFT_OUT}; --show-signature runs gpg", is_bundled=False
    ),
    _entry(
        "git ls-files",
        "-c -d -m -o -s -t -u --cached --deleted --modified --others --stage --unmerged --exclude-standard --full-name",
        "",
        "path",
        "-X and --exclude-from read a file; --with-tree and --recurse-submodules read more than this repository",
        is_bundled=False,
    ),
    _entry(
        "git rev-parse",
        """
        -q --quiet --verify --short --abbrev-ref --symbolic-full-name --show-toplevel --show-prefix
        --is-inside-work-tree
        """,
        "--short=number --abbrev-ref=word",
        "path",
        "--parseopt and --sq-quote write shell code",
        is_bundled=False,
    ),
    _entry(
        "git show", _LOG_FLAGS, _LOG_VALUES, "path", f"{_DIFF_LEFT_OUT}; --show-signature runs gpg", is_bundled=False
    ),
    _entry(
        "git status",
        "-s -b -u --short --branch --long --porcelain --show-stash --untracked-files --ignored --ahead-behind",
        "-u=word --porcelain=word --untracked-files=word --ignored=word",
        "path",
        "-v shows differences, which may run programs",
        is_bundled=False,
    ),
)
