"""A client of an agent on the network: `python remote_client.py 'ws://127.0.0.1:8765/acp#token=…'`.

`duologue serve` prints such an address. What an agent elsewhere may do here is up to us, as with one of our own.
"""

import asyncio
import sys
from pathlib import Path

from duologue import Permissions, Workspace, connect
from duologue.errors import ConnectError, ConnectionLost, ResumeFailed
from duologue.events import Text


async def main(url: str) -> None:
    here = Path.cwd()
    try:
        async with connect(url, permissions=Permissions(read="allow"), workspace=Workspace(here)) as agent:
            print("reached:", agent.info.name if agent.info else "an agent without a name")
            async with agent.new_session(here) as session, session.prompt("/tour") as turn:
                async for event in turn:  # a broken connection is only a pause
                    if isinstance(event, Text):
                        print(event.text, end="", flush=True)
            print("ended:", turn.stop_reason)
    except ConnectError as error:  # no server there, or it rejects the client
        sys.exit(f"no agent: {error}")
    except ResumeFailed:  # away for too long: connect again and load the session
        sys.exit("away for too long; connect again and continue with `agent.load_session(session.id)`")
    except ConnectionLost as error:
        sys.exit(f"lost: {error}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
