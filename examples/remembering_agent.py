"""An agent that builds on earlier prompts, also after a restart."""

from collections.abc import AsyncIterator

from duologue import Agent, Session, Turn
from duologue.types import MessageChunk, text_of

agent = Agent("remembering", version="1.0")
agent.persist_sessions("~/.local/share/remembering")  # load, list, resume, close and delete work from here on


@agent.on_open
async def opened(session: Session) -> None:
    session.state.setdefault("prompts", 0)  # plain JSON, saved with the session


@agent.on_prompt
async def answer(turn: Turn) -> str | None:
    turn.session.state["prompts"] += 1
    if turn.session.title is None:
        await turn.set_title(turn.text[:40])  # shown in lists; a title the user gave is never replaced
    if "secret" in turn.text:
        return "refusal"  # a refused turn is replayed on load, but no later turn builds on it
    earlier = [message async for message in messages(turn)][:-1]  # the last one is this prompt
    await turn.say(f"Prompt {turn.session.state['prompts']}. Before it we said: {earlier}")
    return None


async def messages(turn: Turn) -> AsyncIterator[str]:
    """Yield the messages for a model, oldest first."""
    async for update in turn.session.history():
        if isinstance(update, MessageChunk) and update.role != "thought":
            yield f"{update.role}: {text_of([update.content])}"


if __name__ == "__main__":
    agent.cli()
