"""Commands that work on the session's files: through the client where it offers that, on our own disk otherwise."""

from __future__ import annotations

from pathlib import Path

from duologue import Turn
from duologue.builtin.gates import may_write
from duologue.builtin.knobs import Knobs
from duologue.builtin.registry import command
from duologue.conversation.updates import FileChange, Location
from duologue.errors import RequestError, ResourceNotFound

__all__ = ["MAX_FOUND"]

MAX_FOUND = 50
"""Matches shown by `/search`: a screenful."""

MAX_SEARCHED = 5_000
"""Files looked into by `/search`."""


@command("read", "Read a file", shows="read tools, fs/read_text_file", hint="path [line [limit]]")
async def read(turn: Turn[Knobs], argument: str) -> None:
    """Asks nobody: reading is what the session's directory is for."""
    path, *numbers = argument.split() or ["README.md"]
    line, limit = (int(number) if number.isdigit() else None for number in [*numbers, "", ""][:2])
    async with turn.tool(f"Read {path}", kind="read", locations=[Location(str(turn.absolute(path)), line)]) as tool:
        try:
            text = await turn.files.read(path, line=line, limit=limit)
        except RequestError as error:
            await tool.fail(error.message)
            await turn.say(f"I could not read `{path}`: {error.message}\n")
            return
        shown = _numbered(text, line or 1) if turn.settings.numbers else text
        await tool.show(f"```\n{shown}\n```")
    await turn.say(f"`{path}` has {len(text.splitlines())} lines here and {len(text)} characters.\n")


@command("files", "List the session's files", shows="read tools")
async def files(turn: Turn[Knobs], argument: str) -> None:
    """The first of them, sorted."""
    async with turn.tool("List files", kind="read") as tool:
        names = sorted(str(path.relative_to(turn.cwd)) for path in _walk(turn.cwd, 200))
        await tool.show("\n".join(names) or "nothing here")
    await turn.say(f"There are {len(names)} files here (hidden ones and those beyond 200 are left out).\n")


@command("write", "Write a file", shows="edit tools, diffs, permission, fs/write_text_file", hint="path [text]")
async def write(turn: Turn[Knobs], argument: str) -> None:
    """Asks first in the default mode."""
    path, _, text = argument.partition(" ")
    path = path or "duologue-example.txt"
    old = await _read_or_none(turn, path)
    await _change(turn, f"Write {path}", path, old, (text or "Hello from duologue's built-in agent.") + "\n")


@command("edit", "Edit a file by replacing text", shows="edit tools, diffs, permission", hint="path old new")
async def edit(turn: Turn[Knobs], argument: str) -> None:
    """Without arguments it edits an example of its own."""
    words = argument.split()
    if len(words) == 3:
        path, before, after = words
    else:
        path, before, after = "duologue-example.txt", "Hello", "Good day"
    old = await _read_or_none(turn, path)
    if old is None or before not in old:
        old = f"{before} from duologue's built-in agent.\n" if len(words) != 3 else old
    if old is None or before not in old:
        await turn.say(f"There is no `{before}` in `{path}`.\n")
        return
    await _change(turn, f"Edit {path}", path, old, old.replace(before, after, 1))


@command("search", "Search the files for a word", shows="search tools, locations to follow", hint="word")
async def search(turn: Turn[Knobs], argument: str) -> None:
    """Plain text, no patterns."""
    word = argument or "TODO"
    async with turn.tool(f"Search for {word!r}", kind="search", raw_input={"word": word}) as tool:
        found = _find(turn.cwd, word)
        for path, line, _ in found[:5]:
            await tool.at(path, line)
        rows = [f"{path.relative_to(turn.cwd)}:{line}: {text.strip()[:120]}" for path, line, text in found]
        await tool.show("\n".join(rows) or "nothing found")
        await tool.change(raw_output={"matches": len(found)})
    await turn.say(f"`{word}` is in {len(found)} places{' or more' if len(found) == MAX_FOUND else ''}.\n")


async def _change(turn: Turn[Knobs], title: str, path: str, old: str | None, new: str) -> None:
    target = turn.absolute(path)
    async with turn.tool(title, kind="edit", locations=[target]) as tool:
        await tool.show(FileChange(str(target), old, new))
        if not await may_write(turn, tool):
            await turn.say(f"I left `{path}` as it was.\n")
            return
        try:
            await turn.files.write(path, new)
        except RequestError as error:
            await tool.fail(error.message)
            await turn.say(f"I could not write `{path}`: {error.message}\n")
            return
    await turn.say(f"I wrote `{path}`.\n")


async def _read_or_none(turn: Turn[Knobs], path: str) -> str | None:
    try:
        return await turn.files.read(path)
    except ResourceNotFound:
        return None
    except RequestError:
        return None


def _numbered(text: str, first: int) -> str:
    return "\n".join(f"{number:>5}  {line}" for number, line in enumerate(text.splitlines(), first))


def _walk(root: Path, limit: int) -> list[Path]:
    found: list[Path] = []
    for path in root.rglob("*"):
        if any(part.startswith(".") for part in path.relative_to(root).parts):
            continue
        if path.is_file() and not path.is_symlink():
            found.append(path)
        if len(found) >= limit:
            break
    return found


def _find(root: Path, word: str) -> list[tuple[Path, int, str]]:
    found: list[tuple[Path, int, str]] = []
    for path in _walk(root, MAX_SEARCHED):
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if word in line:
                found.append((path, number, line))
                if len(found) >= MAX_FOUND:
                    return found
    return found
