"""The agent of `official_agent.py` with duologue."""

# --8<-- [start:program]
from duologue import Agent, Turn

agent = Agent("notes", version="1.0")


@agent.on_prompt
async def answer(turn: Turn) -> None:
    text = await turn.files.read("note.txt")
    await turn.say(f"It says: {text}")

    async with turn.tool("Clear the note", kind="edit", locations=["note.txt"]) as edit:
        if await edit.request_permission():
            await turn.files.write("note.txt", "")


agent.run()
# --8<-- [end:program]
