"""An agent whose usage adds up: tokens of each turn, cost of the session so far, size of the context."""

from typing import Any

from duologue import Agent, Turn, run
from duologue.types import TokenUsage

WINDOW = 200_000
PRICE = 3e-6  # of a token

agent = Agent("counting", unstable={"usage"})


async def call_model(prompt: str) -> tuple[str, int, int]:
    """Return an answer, and the tokens sent and received; a real agent reads them from its model's response."""
    return f"You wrote {len(prompt)} characters.", len(prompt), 6


@agent.on_prompt
async def answer(turn: Turn[Any]) -> None:
    text, sent, received = "", 0, 0
    for _ in range(2):  # a turn makes several requests: add them all up
        text, tokens_in, tokens_out = await call_model(turn.text)
        sent, received = sent + tokens_in, received + tokens_out
        state = turn.session.state  # saved with the session, so that the cost goes on after a restart
        state["cost"] = state.get("cost", 0.0) + (tokens_in + tokens_out) * PRICE
        await turn.report_usage(used=tokens_in + tokens_out, size=WINDOW, cost=state["cost"])
    await turn.say(text)
    turn.tokens = TokenUsage(total=sent + received, input=sent, output=received)


if __name__ == "__main__":
    run(agent)
