"""Write the code of the example files into the pages that show it, where it can be read without building the site.

python -m scripts.page_examples

A fence that begins with ```` ```python title="examples/first_client.py" ```` shows that file: its lines between
`[start:program]` and `[end:program]` if it has these marks, else all of it.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]

_FENCE = re.compile(
    r'^(?P<head>(?P<indent> *)```\w+ title="(?P<file>examples/[^"]+)"\n).*?^(?P=indent)```$', re.DOTALL | re.MULTILINE
)
_PROGRAM = re.compile(r"^.*\[start:program\]\n(.*)^.*\[end:program\]\n", re.DOTALL | re.MULTILINE)


def with_examples(page: str) -> str:
    """Return the text of a page with the code of the example files as it is now."""
    return _FENCE.sub(lambda fence: f"{fence['head']}{_code(fence['file'], fence['indent'])}{fence['indent']}```", page)


def _code(file: str, indent: str) -> str:
    text = (ROOT / file).read_text("utf-8")
    program = _PROGRAM.search(text)
    return textwrap.indent(text if program is None else program[1], indent)


def main() -> None:
    """Write all pages."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text("utf-8")
        if (written := with_examples(text)) != text:
            page.write_text(written, "utf-8")


if __name__ == "__main__":
    main()
