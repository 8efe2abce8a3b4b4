"""Any command-line program as an agent: the prompt is its input, its output is the answer."""

import asyncio
import codecs
import sys

import duologue
from duologue import Turn
from duologue.errors import RequestError

COMMAND = [sys.executable, "-c", "import sys; print(sys.stdin.read().upper(), end='')"]  # put yours here


async def answer(turn: Turn) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, cwd=turn.cwd, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may be cut in two between reads
    try:
        process.stdin.write(turn.text.encode())
        process.stdin.close()
        while piece := await process.stdout.read(4096):
            if text := decoder.decode(piece):
                await turn.say(text)
        if code := await process.wait():
            raise RequestError(f"the program ended with {code}", code=code)
    finally:
        if process.returncode is None:  # the turn was cancelled
            process.kill()
            await process.wait()


if __name__ == "__main__":
    duologue.run(answer, name="wrapped")
