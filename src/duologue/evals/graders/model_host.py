"""Call the model function of a judge in this process: the prompt on stdin, its answers as JSON on stdout.

    python -m duologue.evals.graders.model_host models.py:ask 3 < prompt.txt

What the function prints goes to stderr.
"""

from __future__ import annotations

import os
import sys

import msgspec

from duologue.evals.graders.function_host import load_function


def main() -> None:
    """Read a prompt, call the function as often as there are votes, and print its answers."""
    output = os.dup(1)
    os.dup2(2, 1)
    prompt = sys.stdin.buffer.read().decode()
    function = load_function(sys.argv[1])
    answers = [function(prompt) for _ in range(int(sys.argv[2]))]
    for answer in answers:
        if not isinstance(answer, str):
            raise TypeError(f"a model function gets a prompt and returns a text, not {type(answer).__name__}")
    with os.fdopen(output, "wb") as file:
        file.write(msgspec.json.encode(answers))


if __name__ == "__main__":
    main()
