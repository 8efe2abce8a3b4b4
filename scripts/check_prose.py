"""Check the words of source, tests and docs: plain English, by the glossary in `docs/project/glossary.md`.

Docstrings, comments, string literals and test names must use the field's words and name the part that acts. Docstrings
of functions must say in the imperative what the function does, and test names must state a behaviour. Names of modules'
constants, classes, functions, arguments, attributes and variables must not contain private words. Prints one line for
each finding; exits with 1 if there is any.

    python scripts/check_prose.py [PATH...] [--count]

A line with the comment `not prose` is data, such as what a user types.
"""

from __future__ import annotations

import argparse
import ast
import io
import itertools
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

ROOT = Path(__file__).parents[1]
PATHS = ("src", "tests", "examples", "scripts", "benchmarks", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
NOT_READ = ("node_modules", "__pycache__", "target", "schema/v1", "schema/v2", "_prose.py", "tests/mutations")

BANNED = {
    r"nobody|somebody|anybody|whoever|whomever|whom": "name the part: the client, the caller, the peer, the user",
    r"(those|the one|the ones|one) who": "name the part that acts",
    r"who (waits|asks|reads|listens|leaves|connects|calls|is waited for)": "name the part that acts",
    r"(is|are|was|were|be|been|being|get|gets) told": "sent, notified, reported",
    r"told": "sent, notified, reported",
    r"(over)?heard|hears": "received",
    r"house|rooms|front door|at the door|the doors|sign at its door": "repository, package, docstring, public API",
    r"a yes|a no": "allowed, rejected",
    r"harmless|inert": "sanitized, safe",
    r"misfits?": "validation error",
    r"knobs?": "setting, option",
    r"visitors?|shel(f|ves)|lifeline|crowd|errands?|departures|arrivals|introductions?": "see the glossary",
    r"(first|last) words": "handshake, final update",
    r"first exchange": "initialize",
    r"hard mark": "hard limit",
    r"blanks": "whitespace",
    r"(held|hold|holds|holding) back": "buffered, deferred",
    r"(give|gives|gave|given|giving) up": "time out, abandon, cancel",
    r"(come|comes|came|coming) back": "reconnect, resume, return",
    r"(take|takes|took|taken|taking) up( again)?": "resume",
    r"sign of life": "activity",
    r"by the book": "as the specification requires",
    r"(?<!-)patience": "retry policy, timeout",
    r"riddles?": "",
    r"any more(?! than)|no more(?! than)": "no longer",
    r"for ever": "forever",
    r"beside": "next to, in addition to",
    r"where (it|that) was wished for|(?<!tclsh )wish(es|ed)?": "requested, wanted",
    r"pictures?|sounds": "image, audio",
}
PATTERNS = [(re.compile(rf"\b(?:{words})\b", re.IGNORECASE), remedy) for words, remedy in BANNED.items()]
ANY_PATTERN = re.compile("|".join(pattern.pattern for pattern, _ in PATTERNS), re.IGNORECASE)
"""Matches a text in which one of the patterns does: most texts have none, and are searched once."""

# Words that no identifier may contain: `place` bans `place` and `in_place`, not `placeholder`.
BANNED_NAMES = {
    "said says told tell tells telling": "text, message, output, response; send, notify, report",
    "heard hear hears unheard ear ears": "received, receive",
    "judge judges judged judging": "policy, validator, decide, evaluate",
    "place places": "path, directory, location, position, url",
    "way ways": "route, method, transport, direction",
    "nobody somebody anybody everybody whoever whom": "name the part: anonymous, unprivileged, unattended",
    "person persons editor editors": "user, client",
    "desk desks room rooms door doors house shelf shelves": "services, package, access, records",
    "land site stage": "sandbox, server, client",
    "spoken speak speaker speaking talk talks talking story stories": "version, writer, conversation, run",
    "kept keeper keepers keeping": "saved, stored, remaining, recorded",
    "wish wishes wished": "request, options, capabilities",
    "picture pictures": "image, state",
    "knob knobs misfit misfits harmless inert harm": "setting, validation error, safe, sanitized",
    "crowd errand errands visitor visitors visit visits visited": "limit, cleanup, caller, connection",
    "departures departed arrivals introduce introduced introduction introductions": "outgoing, incoming, initialize",
    "patience restraint ladder": "timeout, wait, backoff",
    "objection taste mortal witness poster mute deaf stranger strangers carefully homes finale": "see the glossary",
}
REMEDIES = {word: remedy for words, remedy in BANNED_NAMES.items() for word in words.split()}
# Under these paths a word means what it says: the line editor of the console, the editors that have a
# docs page, the editor as a workspace, the judgement of a rule by a case.
ALLOWED_NAMES = {
    "src/duologue/cli": {"editor"},
    "tests/config": {"editor"},
    "src/duologue/integrations": {"editor"},
    "tests/integrations": {"editor"},
    "src/duologue/conformance": {"judge", "judging", "judged"},
    "tests/conformance": {"judge", "judging", "judged"},
    "src/duologue/evals": {"judge", "judged"},
    "tests/evals": {"judge", "judged"},
}
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
RIDDLE = re.compile(r"test_(what|who|which|how)_")

# How the first line of a docstring must not begin: it says a situation, not an action.
NOT_IMPERATIVE = re.compile(
    r"(Whether|What|Who|Whose|How|The|An?|It|Its|Is|Are|If|All|One|Nothing|As|This|These|That|Those|Same|Another|There"
    r"|Every|Each|Everything|No|Like|Such|Also|For|In|On|Of|By|With|Without|From|Where|When|Which|Our|Their|We)\b"
)
NO_TEXT = {ast.Load, ast.Store, ast.Call, ast.keyword, ast.BinOp, ast.Compare, ast.Return, ast.Await, ast.Subscript}
NOT_A_NOUN = re.compile(r"(What|Who|Whose|Where|When|Nothing|Is|Are)\b")


class Finding(NamedTuple):
    """A place that needs other words."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def findings_in(path: Path) -> Iterator[Finding]:
    """Yield what has to be rewritten in one file."""
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        yield from (Finding(shown, line, found) for line, found in _words_in_markdown(text))
        return
    nodes = [node for node in ast.walk(ast.parse(text)) if not _is_only_used(node)]
    lines = text.splitlines()
    for line, prose in _texts_of(text, nodes):
        if "# not prose" in lines[line - 1]:
            continue
        yield from (Finding(shown, line, found) for found in _words_in(prose))
    allowed = {word for prefix, words in ALLOWED_NAMES.items() if shown.is_relative_to(prefix) for word in words}
    for node in nodes:
        for line, found in (*_docstring_of(node), *_attribute_docstrings_of(node), *_names_of(node, allowed)):
            yield Finding(shown, line, found)


def _is_only_used(node: ast.AST) -> bool:
    """Return True for nodes, among the most frequent ones, that define no name and have no text of their own."""
    return type(node) in NO_TEXT or isinstance(getattr(node, "ctx", None), ast.Load)


def _words_in(text: str) -> Iterator[str]:
    if ANY_PATTERN.search(text) is None:
        return
    for pattern, remedy in PATTERNS:
        for found in pattern.finditer(text):
            yield f'"{found[0]}"' + (f" (say: {remedy})" if remedy else "")


def _texts_of(text: str, nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield comments with a banned word, and string literals, with the line on which each begins."""
    if any("#" in line and ANY_PATTERN.search(line) for line in text.splitlines()):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def _names_of(node: ast.AST, allowed: set[str]) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with the names that a node defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test_"):
            yield from ((node.lineno, f"test name: {found}") for found in _words_in(name.replace("_", " ")))
            if RIDDLE.match(name):
                yield node.lineno, f"test name: states no behaviour: {name}"
            return
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            pass
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            pass
        case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            pass
        case _:
            return
    for word in WORD.findall(name):
        if word.lower() in REMEDIES and word.lower() not in allowed:
            yield node.lineno, f'name "{name}": "{word}" (say: {REMEDIES[word.lower()]})'


def _words_in_markdown(text: str) -> Iterator[tuple[int, str]]:
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield from ((number, found) for found in _words_in(re.sub(r"`[^`]*`", "``", line)))


def _docstring_of(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with the first line of a docstring."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        return
    docstring = ast.get_docstring(node)
    if docstring is None:
        return
    first = docstring.partition("\n")[0]
    line = node.body[0].lineno
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_described_as_a_value(node):
        if NOT_IMPERATIVE.match(first):
            yield line, f"not imperative: {first}"
    elif NOT_A_NOUN.match(first):
        yield line, f"says a situation, not a thing: {first}"


def _attribute_docstrings_of(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with the first line of string literals that follow an assignment."""
    body: object = getattr(node, "body", None)
    statements = cast("list[ast.AST]", body) if isinstance(body, list) else []
    for before, after in itertools.pairwise(statements):
        match before, after:
            case ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text))):
                first = text.strip().partition("\n")[0]
                if NOT_A_NOUN.match(first):
                    yield after.lineno, f"says a situation, not a thing: {first}"
            case _:
                pass


def _is_described_as_a_value(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for properties, fixtures and tests, whose docstrings are noun phrases or sentences."""
    names = " ".join(ast.unparse(each) for each in node.decorator_list)
    return node.name.startswith("test_") or any(word in names for word in ("property", "fixture", ".setter"))


def files(paths: Iterable[str] = ()) -> Iterator[Path]:
    """Yield the files to read, in order; without paths, everything."""
    for name in paths or PATHS:
        path = (ROOT / name).resolve()
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        for each in found:
            if each.suffix in (".py", ".md") and not any(part in each.as_posix() for part in NOT_READ):
                yield each


def main() -> int:
    """Print the findings; return the exit code."""
    parser = argparse.ArgumentParser(description="Check the words of source, tests and docs.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--count", action="store_true", help="print the number of findings for each directory")
    arguments = parser.parse_args()
    found = [each for path in files(arguments.paths) for each in findings_in(path)]
    if arguments.count:
        for name, number in sorted(Counter("/".join(each.path.parts[:3]) for each in found).items()):
            sys.stdout.write(f"{number:6} {name}\n")
    else:
        sys.stdout.writelines(f"{each}\n" for each in found)
    sys.stdout.write(f"{len(found)} findings\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
