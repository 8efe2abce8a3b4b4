"""Watch a trial of `duologue eval run --attach` until it ends.

python watch_trial.py URL [SESSION]
"""

import asyncio
import sys

from duologue import connect
from duologue.events import Text, ToolCall

ENDED = "[the trial has ended"


async def main(url: str, wanted: str = "") -> None:
    """Print what the first trial, or the wanted one, has done and does."""
    async with connect(url) as agent:
        running = [info for info in await agent.list_sessions() if wanted in ("", info.session_id)]
        if not running:
            sys.exit("no such trial is running")
        print(f"# {running[0].title}")
        async with agent.load_session(running[0].session_id, running[0].cwd) as session:
            for message in session.transcript.messages:
                print(f"{message.role}: {message.text}", flush=True)
                if ENDED in message.text:
                    return
            async for event in session.events():
                match event:
                    case Text(text=text):
                        print(text, end="", flush=True)
                        if ENDED in text:
                            return
                    case ToolCall(title=title, status=status):
                        print(f"\n[{status}] {title}")
                    case _:
                        pass


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
