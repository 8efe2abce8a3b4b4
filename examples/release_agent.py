"""An agent that asks the user to fill in a form, and to log in on another site's page."""

from dataclasses import dataclass, field
from typing import Literal

from duologue import Agent, Turn

agent = Agent("release", version="1.0")


@dataclass
class Release:
    """A release: its version, channel and notes."""

    version: str = field(metadata={"title": "Version", "pattern": r"\d+\.\d+\.\d+"})
    channel: Literal["stable", "beta"] = "stable"
    notes: str = field(default="", metadata={"title": "What is new", "description": "Markdown"})
    copies: int = field(default=1, metadata={"minimum": 1, "maximum": 10})
    announce: bool = True


@agent.on_prompt
async def answer(turn: Turn) -> None:
    release = await turn.elicit(Release, "What shall I release?")
    if release is None:  # declined, cancelled, filled in wrongly, or the client has no forms
        await turn.say("Then nothing is released.")
        return
    await turn.say(f"Releasing {release.version} on {release.channel}. ")
    if release.announce and turn.client_capabilities.urls:
        await log_in_to_announce(turn)


async def log_in_to_announce(turn: Turn) -> None:
    # Secrets never travel through a form: the user enters them on the page, which informs our server.
    question = turn.session.new_id("login")
    if await turn.elicit_url("Log in to announce it", "https://example.com/login", elicitation_id=question):
        # here, wait until the page has informed the server
        await turn.session.complete_elicitation(question)
        await turn.say("Announced.")


if __name__ == "__main__":
    agent.cli()
