"""Any command-line program as an agent: the prompt is its input, its output is the answer."""

import asyncio
import sys

import duologue
from duologue import Settings, Turn

COMMAND = [sys.executable, "-c", "import sys; print(sys.stdin.read().upper(), end='')"]  # put yours here


async def answer(turn: Turn[Settings]) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, cwd=turn.cwd, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(turn.text.encode())
        process.stdin.close()
        while piece := await process.stdout.read(4096):
            await turn.say(piece.decode(errors="replace"))
    finally:  # a cancelled turn ends here, too
        if process.returncode is None:
            process.kill()
        await process.wait()


if __name__ == "__main__":
    duologue.serve(answer, name="wrapped")
