"""An agent that uses most features: settings, plan, tools, permission, files, commands, an extension, a store."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from duologue import Agent, Settings, Turn, choice, toggle
from duologue.errors import ResourceNotFound


class NotesSettings(Settings):  # modes and config options from one typed declaration
    mode = choice("ask", "write", category="mode")
    deep = toggle(False, name="Deep search")


@dataclass
class StatsQuery:
    since: str = ""


@dataclass
class Stats:
    notes: int


# Capabilities follow from what is registered below.
agent = Agent("notes", version="1.0", title="Notes", settings=NotesSettings)


async def my_model(notes: str, tests: str, question: str) -> AsyncIterator[str]:
    """Stand in for a model: count the words of the notes."""
    yield f"You have {len(notes.split())} words of notes. "
    yield f"You asked: {question}"


@agent.on_prompt  # return = end_turn; cancelled = "cancelled", never an error
async def answer(turn: Turn[NotesSettings]) -> None:
    plan = await turn.plan("Read the notes", "Answer")
    notes = turn.cwd / "notes.md"
    async with plan.step(), turn.tool("Read notes.md", kind="read") as read:  # leaving = completed, raising = failed
        try:
            text = await turn.files.read(notes)  # the editor's unsaved text when it offers it
        except ResourceNotFound:
            text = ""
        await read.show(text)
    if turn.settings.mode == "write":
        async with turn.tool("Write notes.md", kind="edit", locations=[notes]) as edit:
            await edit.diff(notes, text or None, text + turn.text, status="pending")  # what the user decides about
            if await edit.request_permission():  # asks the user, unless a remembered answer covers it
                await turn.files.write(notes, text + turn.text)
    tests = await turn.run(
        "echo", "all tests passed", timeout=60
    )  # in the editor's terminal, or as a process of the agent
    async with plan.step():
        async for piece in my_model(text, tests.output, turn.text):
            await turn.say(piece)  # waits when the editor is slow
    await turn.report_usage(used=1200, size=200_000)


@agent.command("clear", "Forget everything")  # advertised after the session is open; dispatched on "/clear"
async def clear(turn: Turn[NotesSettings], argument: str) -> None:
    await turn.files.write("notes.md", "")


@agent.extension("_notes/stats")  # typed custom method, schema from the annotations
async def stats(query: StatsQuery) -> Stats:
    return Stats(notes=1)


agent.persist_sessions("~/.local/share/notes")  # load, list, resume, close and delete work from here on

if __name__ == "__main__":
    agent.cli()
