"""Record a conversation, then read the recording: its sessions, and every message that was sent."""

import asyncio
import tempfile
from pathlib import Path

from duologue import connect
from duologue.events import Message, ToolCall
from duologue.recording import read_recording
from duologue.types import recorded_sessions

AGENT = ["duologue", "agent"]  # or any other command


async def record(path: Path) -> None:
    async with connect(AGENT, record=path) as agent:
        session = await agent.new_session(str(path.parent))
        await session.prompt("/plan")


def show_sessions(path: Path) -> None:
    for session in recorded_sessions(path):
        print(f"session {session.session_id} in {session.cwd}")
        for item in session.transcript.items:
            match item:
                case Message(role=role, text=text):
                    print(f"{role}: {text}")
                case ToolCall(title=title, status=status):
                    print(f"[{status}] {title}")
                case _:
                    pass


def count_messages(path: Path) -> None:
    entries = list(read_recording(path))
    for receiver in ("to_agent", "to_client"):
        print(f"{sum(entry.dir == receiver for entry in entries)} messages {receiver}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        recording = Path(directory) / "run.acp"
        asyncio.run(record(recording))
        show_sessions(recording)
        count_messages(recording)
