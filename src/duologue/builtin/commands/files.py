"""Commands that work on the session's files: through the client where it offers that, on our own disk otherwise."""

from __future__ import annotations

import asyncio
import re
from itertools import islice
from pathlib import Path

from duologue import Turn
from duologue.builtin.markdown import fenced
from duologue.builtin.search import find_files, find_text
from duologue.builtin.settings import BuiltinSettings, acts_done, may
from duologue.builtin.slash_command import command, path_and_rest, words_in
from duologue.conversation.updates import Location
from duologue.errors import RequestError

MAX_LISTED = 200
"""Files that `/files` lists."""

MAX_FOUND = 50
"""Matches that `/search` shows: a screenful."""

MAX_FOLLOWED = 5
"""Matches that `/search` reports as places for the client to follow."""

MAX_SHOWN = 100_000
"""Characters of a file that are shown: enough for a conversation."""

EXAMPLE = "duologue-example.txt"
"""The file that `/write` and `/edit` use when none is named."""

GREETING = "Hello from duologue's built-in agent.\n"
OTHER_GREETING = "Good day from duologue's built-in agent.\n"


@command(
    "read", "Read a file, unsaved changes included", shows="read tools, `fs/read_text_file`", hint="path [line [limit]]"
)
async def read(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Read a file of the session without asking for permission."""
    path, line, limit = _path_and_lines(argument)
    async with turn.tool(f"Read {path}", kind="read", locations=[Location(str(turn.absolute(path)), line)]) as tool:
        try:
            text = await turn.files.read(path, line=line, limit=limit)
        except RequestError as error:
            await tool.fail(error.message)
            await turn.say(f"I could not read `{path}`: {error.message}\n")
            return
        shown = text[:MAX_SHOWN]
        await tool.show(fenced(_numbered(shown, line or 1) if turn.settings.numbers else shown))
        await tool.update(status="completed", raw_output={"characters": len(text)})
    cut = f" I showed the first {MAX_SHOWN:,} of them." if len(text) > MAX_SHOWN else ""
    await turn.say(f"`{path}`: {len(text.splitlines()):,} lines, {len(text):,} characters.{cut}\n")


@command("files", "List the session's files", shows="search tools")
async def files(turn: Turn[BuiltinSettings], argument: str) -> None:
    """List the first files, without hidden ones."""
    roots = turn.session.setup.roots
    async with turn.tool("List files", kind="search") as tool:
        found = await asyncio.to_thread(lambda: list(islice(find_files(roots), MAX_LISTED + 1)))
        names = [_short(turn, path) for path in found[:MAX_LISTED]]
        await tool.show(fenced("\n".join(names) or "nothing here"))
    more = f"the first {MAX_LISTED} of many" if len(found) > MAX_LISTED else f"{len(names)}"
    await turn.say(f"Files: {more}. Hidden ones are left out.\n")


@command(
    "write",
    "Write a file",
    shows="edit tools, diffs, permission, `fs/write_text_file`",
    hint="path text to put into it",
)
async def write(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Write a file; asks first in the default mode."""
    path, text = path_and_rest(argument)
    path = path or EXAMPLE
    new = text.removesuffix("\n") + "\n" if text else GREETING
    await _change(turn, f"Write {path}", path, await _read_or_none(turn, path), new)


@command(
    "edit", "Replace some text in a file", shows="edit tools, diffs, permission", hint="path 'old text' 'new text'"
)
async def edit(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Edit a file; asks first in the default mode. Without an argument it edits an example file."""
    try:
        words = words_in(argument)
    except ValueError as error:
        await turn.say(f"I cannot read that: {error}.\n")
        return
    match words:
        case []:
            await _edit_example(turn)
        case [path, before, after]:
            old = await _read_or_none(turn, path)
            if old is None:
                await turn.say(f"I cannot read `{path}`.\n")
            elif before not in old:
                await turn.say(f"There is no `{before}` in `{path}`.\n")
            else:
                await _change(turn, f"Edit {path}", path, old, old.replace(before, after, 1))
        case _:
            await turn.say("Say `/edit path old new`; quotes hold words together.\n")


@command("search", "Search the files for a word", shows="search tools, locations to follow", hint="word")
async def search(turn: Turn[BuiltinSettings], argument: str) -> None:
    """Search for plain text."""
    word = argument.strip() or "TODO"
    async with turn.tool(f"Search for {word!r}", kind="search", raw_input={"word": word}) as tool:
        found = await asyncio.to_thread(find_text, turn.session.setup.roots, word, MAX_FOUND + 1)
        for each in found[:MAX_FOLLOWED]:
            await tool.add_location(each.path, each.line)
        rows = [f"{_short(turn, each.path)}:{each.line}: {each.text.strip()[:120]}" for each in found[:MAX_FOUND]]
        await tool.show(fenced("\n".join(rows) or "nothing found"))
        await tool.update(status="completed", raw_output={"matches": len(rows)})
    count = f"at least {MAX_FOUND}" if len(found) > MAX_FOUND else len(found)
    await turn.say(f"`{word}`: {count} lines.\n")


COMMANDS = (read, write, edit, search, files)


async def _edit_example(turn: Turn[BuiltinSettings]) -> None:
    old = await _read_or_none(turn, EXAMPLE)
    await _change(turn, f"Edit {EXAMPLE}", EXAMPLE, old, OTHER_GREETING if old == GREETING else GREETING)


async def _change(turn: Turn[BuiltinSettings], title: str, path: str, old: str | None, new: str) -> None:
    """Show the difference, ask for permission, and write."""
    async with turn.tool(title, kind="edit", locations=[path]) as tool:
        await tool.diff(path, old, new, status="pending")
        if not await may(turn, tool, "write files"):
            await turn.say(f"I left `{path}` as it was.\n")
            return
        try:
            await turn.files.write(path, new)
        except RequestError as error:
            await tool.fail(error.message)
            await turn.say(f"I could not write `{path}`: {error.message}\n")
            return
    acts_done.set(acts_done.get() + 1)
    await turn.say(f"I wrote `{path}`.\n")


async def _read_or_none(turn: Turn[BuiltinSettings], path: str) -> str | None:
    try:
        return await turn.files.read(path)
    except RequestError:
        # Clients disagree on the error for a missing file; writing will say what else is wrong with this one.
        return None


def _path_and_lines(argument: str) -> tuple[str, int | None, int | None]:
    """Parse a path, a line and a number of lines; a path with spaces needs no quotes."""
    found = re.fullmatch(r"\s*(.*?)(?:\s+(\d{1,9}))?(?:\s+(\d{1,9}))?\s*", argument, re.DOTALL)
    path, line, limit = found.groups() if found is not None else (argument, None, None)
    quoted, rest = path_and_rest(path)
    return (path if rest else quoted) or "README.md", int(line) if line else None, int(limit) if limit else None


def _numbered(text: str, first: int) -> str:
    return "\n".join(f"{number:>5}  {line}" for number, line in enumerate(text.splitlines(), first))


def _short(turn: Turn[BuiltinSettings], path: Path) -> str:
    return str(path.relative_to(turn.cwd)) if path.is_relative_to(turn.cwd) else str(path)
