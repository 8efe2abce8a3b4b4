"""A web application that answers with an agent, and streams the answer.

uvicorn web_app:app --port 8000
curl -N --json '{"question": "/plan"}' http://127.0.0.1:8000/ask
"""

import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from duologue import connect
from duologue.errors import DuologueError
from duologue.events import Text
from duologue.types import Restart

AGENT = os.environ.get("AGENT", "builtin")  # or "gemini --acp", or any other command


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Start the agent once; all requests share its process, each in a session of its own."""
    async with connect(AGENT, restart=Restart(limit=3, within=60), stall_timeout=60) as agent:
        app.state.agent = agent
        yield


app = FastAPI(lifespan=lifespan)


class Question(BaseModel):
    question: str = Field(max_length=10_000)


@app.post("/ask")
async def ask(body: Question, request: Request) -> StreamingResponse:
    """Stream the answer as plain text; a reader that goes away cancels the turn."""
    directory = tempfile.TemporaryDirectory()  # what the agent may read: an empty directory
    try:
        session = await request.app.state.agent.new_session(directory.name)
    except DuologueError as error:
        directory.cleanup()
        raise HTTPException(503, str(error)) from error

    async def answer() -> AsyncIterator[str]:
        with directory:
            async with session, session.prompt(body.question) as turn:
                async for event in turn:
                    if isinstance(event, Text):
                        yield event.text
                if turn.stop_reason != "end_turn":
                    yield f"\n[the answer is incomplete: {turn.stop_reason}]\n"

    return StreamingResponse(answer(), media_type="text/plain; charset=utf-8")
