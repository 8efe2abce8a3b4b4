"""An agent that asks before it acts: `delete FILE`, `write FILE TEXT`, or `plan` to be asked about a plan first."""

from duologue import Agent, Settings, Turn, choice
from duologue.errors import RequestError
from duologue.types import PermissionOption

LEAVE_PLANNING = [
    PermissionOption(option_id="work", name="Yes, start working", kind="allow_once"),
    PermissionOption(option_id="plan", name="No, keep planning", kind="reject_once"),
]


class CarefulSettings(Settings):
    mode = choice("work", "plan", category="mode")


agent = Agent("careful", version="1.0", settings=CarefulSettings)


@agent.on_prompt
async def answer(turn: Turn[CarefulSettings]) -> None:
    verb, _, rest = turn.text.partition(" ")
    if verb == "plan":
        await plan(turn)
    elif turn.settings.mode == "plan":
        await turn.say("I only plan for now.")
    elif verb == "write":
        await write(turn, *rest.split(" ", 1))
    elif verb == "delete":
        await delete(turn, rest)
    else:
        await turn.say("Send `write FILE TEXT`, `delete FILE` or `plan`.")


async def write(turn: Turn[CarefulSettings], name: str, text: str) -> None:
    async with turn.tool(f"Write {name}", kind="edit", locations=[name]) as tool:
        try:
            old = await turn.files.read(name)
        except RequestError:
            old = None
        await tool.diff(name, old, text, status="pending")  # shown with the question: the user sees what would happen
        # "Always" covers every file from here on, in this session.
        if await tool.request_permission(remember_as="write files"):
            await turn.files.write(name, text)


async def delete(turn: Turn[CarefulSettings], name: str) -> None:
    async with turn.tool(f"Delete {name}", kind="delete", locations=[name]) as tool:
        if await tool.request_permission():  # "always" covers this very file
            await turn.run("rm", "--", name, tool=tool)
        else:
            await turn.say(f"I left {name} alone.")


async def plan(turn: Turn[CarefulSettings]) -> None:
    await turn.set_option(mode="plan")
    await turn.plan("Look around", "Do the work", "Check the result")
    async with turn.tool("Ready to work", kind="switch_mode") as tool:
        chosen = await tool.request_permission_option(options=LEAVE_PLANNING)
        if chosen is not None:
            await turn.set_option(mode=chosen.option_id)
    await turn.say(f"The mode is {turn.settings.mode}.")


if __name__ == "__main__":
    agent.cli()
