"""Patterns of rules: globs for files, words for commands.

A pattern that allows is matched strictly, one that asks or rejects is matched loosely, so that each errs on the safe
side:

            allow                                       ask, reject
    files   exactly the glob, case included             also below it, in any case; a bare name at any depth;
                                                        also where links in the fixed beginning of the glob lead
    words   exactly these, or with ` *` a command of    these words in this order anywhere, the program in any
            `reviewed_commands` with listed arguments   directory and by any link; arguments follow or not
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from duologue.client.permissions.actions import ActionContext, CommandInvocation
from duologue.client.permissions.command_line import join, program_of, split
from duologue.client.permissions.reviewed_commands import REVIEWED, ReviewedCommand, reviewed
from duologue.client.permissions.sensitive_paths import casefold_path
from duologue.client.permissions.tool_input import MOST_CHARACTERS

_LAUNCHERS = """
sh bash dash ash ksh zsh fish csh tcsh pwsh powershell cmd busybox toybox
python pypy node nodejs deno bun ruby perl php lua luajit r rscript julia java jshell groovy scala kotlin osascript
tclsh wish awk gawk mawk nawk sed ed ex vi vim nvim view emacs nano less more man gdb lldb expect sqlite psql mysql
irb ghci env xargs find fd parallel nice ionice nohup time timeout stdbuf setsid sudo doas su runuser chroot unshare
nsenter strace ltrace watch script tmux screen entr watchexec at batch crontab systemd-run flatpak-spawn command exec
eval source builtin npx pnpx bunx uvx pipx make gmake just task rake gradle mvn ant bazel cmake ninja tox nox ssh scp
sftp rsync docker podman nerdctl kubectl tar zip curl wget nc ncat socat open start xdg-open ld-linux ld
taskset flock prlimit setarch linux chrt numactl setpriv capsh pkexec bwrap firejail cgexec valgrind perf rlwrap split
"""
LAUNCHERS = frozenset(_LAUNCHERS.split())
"""Programs that run, or write, what their arguments or files say: not complete, and never a reason to allow."""

_RUNNING_WORDS = """
-c -e -x -m run exec dlx x test start eval shell tool install script config alias bisect filter-branch rebase difftool
mergetool submodule
"""
RUNNING_WORDS = frozenset(_RUNNING_WORDS.split())
"""Arguments after which programs run what follows, or something that can be changed beforehand."""

HAVE_SUBCOMMANDS = frozenset({"git", "hg", "svn", "npm", "pnpm", "yarn", "cargo", "go", "uv", "pip", "poetry"})
"""Programs whose first argument names what they do."""

WORDS_IN_A_LINE = re.compile(r"[\w./+@%:,-]+")


class PathPattern:
    """A glob, relative to the session's directory: `*` and `?` match within a name, `**` crosses directories."""

    def __init__(self, text: str) -> None:
        if not text.strip() or "\0" in text:
            raise ValueError("a rule for files needs a pattern")
        self.text = text
        self._glob = str(Path(text).expanduser()) if text.startswith("~") else text.removeprefix("./")

    @cached_property
    def _strict(self) -> re.Pattern[str]:
        return re.compile(_glob_to_regex(self._glob))

    @cached_property
    def _loose(self) -> re.Pattern[str]:
        glob = casefold_path(self._glob.rstrip("/").removesuffix("/**") or "/")
        anywhere = "" if "/" in glob else "(.*/)?"
        return re.compile(f"{anywhere}{_glob_to_regex(glob)}(/.*)?")

    def matches_strictly(self, path: str, context: ActionContext) -> bool:
        """Return True if a rule that allows covers this file."""
        is_anchored = self._glob.startswith("/") or path.startswith(_folder(context.cwd))
        return is_anchored and self._strict.fullmatch(self._relative_to(path, context.cwd)) is not None

    def may_match(self, path: str, context: ActionContext) -> bool:
        """Return True if a rule that asks or rejects may cover this file."""
        seen = {self._relative_to(path, root) for root in (context.cwd, *context.roots)}
        if any(self._loose.fullmatch(casefold_path(each)) for each in seen):
            return True
        return any(real.fullmatch(casefold_path(path)) for real in self._behind_links(context))

    def _behind_links(self, context: ActionContext) -> Iterator[re.Pattern[str]]:
        """Yield the patterns of where the links in the glob's fixed beginning lead now."""
        glob = self._glob.rstrip("/").removesuffix("/**") or "/"
        fixed = re.match(r"([^*?]*(/|$))?", glob)
        start = fixed.group() if fixed else ""
        for root in dict.fromkeys([context.cwd, *context.roots]):
            written = Path(root, start)
            real = os.path.realpath(written)
            if start and real != str(written):
                rest = glob[len(start) :]
                beneath = (
                    re.escape(casefold_path(_folder(real))) + _glob_to_regex(casefold_path(rest))
                    if rest
                    else re.escape(casefold_path(real))
                )
                yield re.compile(f"{beneath}(/.*)?")

    def _relative_to(self, path: str, root: str) -> str:
        """Return the path in the form of the glob: absolute, or relative to the directory if it is inside."""
        return path if self._glob.startswith("/") else path.removeprefix(_folder(root))


class CommandPattern:
    """Words of a command; ` *` at the end of one that allows stands for arguments listed in `reviewed_commands`."""

    def __init__(self, text: str, *, allows: bool) -> None:
        self.text = text
        body, star, rest = text.partition(" *")
        self.takes_arguments = bool(star) and not rest.strip()
        words = split(body if allows else " ".join(word for word in text.split() if word != "*"))
        if words is None or (star and rest.strip() and allows):
            raise ValueError(f"expected one simple command, optionally with ` *` at its end, not {text!r}")
        self.words = tuple(words)
        if allows and self.takes_arguments and self._reviewed is None:
            raise ValueError(_not_reviewed(text, self.words))

    @property
    def _reviewed(self) -> ReviewedCommand | None:
        entry = reviewed(self.words)
        return entry if entry is not None and entry.words == self.words else None

    def matches_strictly(self, command: CommandInvocation) -> bool:
        """Return True if a rule that allows covers this command."""
        if command.env:
            return False
        if not self.takes_arguments:
            return command.words == self.words
        entry, size = self._reviewed, len(self.words)
        if entry is None or command.words[:size] != self.words:
            return False
        return entry.accepts(command.words[size:], command.cwd)

    def may_match(self, command: CommandInvocation) -> bool:
        """Return True if a rule that asks or rejects may cover this command."""
        words = command.words or WORDS_IN_A_LINE.findall(command.line)
        return self._occurs_in(words) or self._occurs_in([_linked_program(command), *words[1:]])

    def is_hidden_in(self, command: CommandInvocation) -> bool:
        """Return True if the words of this rule are inside an argument, where another program may run them."""
        return self._occurs_in(WORDS_IN_A_LINE.findall(" ".join(command.words)))

    def _occurs_in(self, words: Iterable[str]) -> bool:
        following = iter(words)
        return all(any(_is_word(wanted, word) for word in following) for wanted in self.words)


Pattern: TypeAlias = PathPattern | CommandPattern


def runs_anything(words: Sequence[str]) -> bool:
    """Return True if a command is known to run what its arguments or files say: a reason to ask, never to allow."""
    program, *rest = words
    if program_of(program) in LAUNCHERS or any(word in RUNNING_WORDS for word in rest):
        return True
    # An option directly after a program with subcommands may change what the rest means: `git -c …`.
    return program_of(program) in HAVE_SUBCOMMANDS and (not rest or rest[0].startswith("-"))


def offered_patterns(command: CommandInvocation) -> list[str]:
    """Return rules that a user may be offered to allow this command and similar ones, the narrowest first."""
    if not command.words or command.env:
        return []
    exact = join(command.words)
    try:
        CommandPattern(exact, allows=True)
    except ValueError:
        return []
    entry = reviewed(command.words)
    wide = [] if entry is None else [f"{entry.name} *"]
    return [exact, *(each for each in wide if CommandPattern(each, allows=True).matches_strictly(command))]


def named_files(command: CommandInvocation) -> list[str]:
    """Return the absolute paths of the files that a reviewed command is given; nothing is known of other commands."""
    entry = reviewed(command.words)
    if entry is None:
        return []
    return [str(Path(command.cwd, each)) for each in entry.files(command.words[len(entry.words) :]) if "\0" not in each]


def _not_reviewed(text: str, words: Sequence[str]) -> str:
    """Explain why ` *` is rejected for a command, and what to write instead."""
    alike = [f"'{entry.name} *'" for entry in REVIEWED if entry.words[0] == program_of(words[0])]
    others = f", or one of {', '.join(alike)}" if alike else ""
    return (
        f"{text!r} would allow any arguments, which may run any program or write any file; "
        f"write a rule for each command with all its arguments{others}"
    )


def _folder(root: str) -> str:
    return root.rstrip("/") + "/"


def _is_word(wanted: str, word: str) -> bool:
    return wanted.casefold() in (word.casefold(), word.casefold().rpartition("/")[2])


def _linked_program(command: CommandInvocation) -> str:
    """Return the real path of a program that is given with its directory."""
    program = command.words[0] if command.words else ""
    if "/" not in program or "\0" in program or len(program) > MOST_CHARACTERS:
        return program
    return os.path.realpath(Path(command.cwd, program))


def _glob_to_regex(glob: str) -> str:
    """Translate a glob; only stars and question marks have a special meaning."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    regexes = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "(?s:" + "".join(regexes.get(part, re.escape(part)) for part in parts) + ")"
