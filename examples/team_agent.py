"""An agent for a team: each member has a token, and separate sessions.

uvicorn team_agent:app --port 8765 --ws-per-message-deflate false --no-proxy-headers
"""

import hashlib
import os

from duologue import Agent, Turn

agent = Agent("greeter", version="1.0.0")
agent.persist_sessions(os.environ.get("GREETER_SESSIONS", "~/.local/share/greeter"))


@agent.on_prompt
async def answer(turn: Turn) -> None:
    await turn.say(f"Hello! You said: {turn.text}")


# Only the hash of a token is stored, so that a reader of this file cannot use it. A real team uses a database.
MEMBERS = {
    hashlib.sha256(b"a-long-random-token-for-ann").hexdigest(): "ann",
    hashlib.sha256(b"a-long-random-token-for-bob").hexdigest(): "bob",
}


async def caller_of(token: str) -> str | None:
    return MEMBERS.get(hashlib.sha256(token.encode()).hexdigest())


app = agent.asgi(authenticate=caller_of, hosts=["agents.example"])
