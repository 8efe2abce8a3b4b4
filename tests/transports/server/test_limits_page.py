"""The page on limits says what the server does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from duologue.transports.server.limits import Limits

PAGE = Path(__file__).parents[3] / "docs" / "topics" / "limits.md"
UNITS = {"": 1, " KiB": 1024, " MiB": 1024 * 1024, " s": 1}


def test_each_limit_of_the_server_is_on_the_page_as_it_is() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+)( KiB| MiB| s|) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    documented = {name: float(number) * UNITS[unit] for name, number, unit in rows}
    limits = dataclasses.asdict(Limits())

    assert limits.pop("idle_seconds") is None
    assert documented == limits
