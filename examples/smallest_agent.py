"""The smallest agent: a plain async generator, on stdio. Sessions, cancellation and replay are included."""

from collections.abc import AsyncIterator

import duologue


async def answer(prompt: str) -> AsyncIterator[str]:
    yield "You said: "
    yield prompt


if __name__ == "__main__":
    duologue.run(answer)
