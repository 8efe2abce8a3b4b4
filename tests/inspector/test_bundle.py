"""The bundle of the inspector page: built from the sources and the lock file, small, with its licences."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from tests.inspector.web_packages import NPM, WEB, install

STATIC = files("duologue.inspector").joinpath("static")
NAMES = ["LICENSES.txt", "inspector.css", "inspector.js"]
MAX_COMPRESSED = 150_000


@pytest.mark.interop
@pytest.mark.timeout(290)
@pytest.mark.skipif(NPM is None or not WEB.exists(), reason="npm is not installed, or there are no sources")
def test_the_bundle_is_what_the_sources_and_the_lock_file_give(tmp_path: Path) -> None:
    install()
    environment = {**os.environ, "NO_COLOR": "1"}
    checked = subprocess.run(
        ["node", "node_modules/typescript/bin/tsc", "--noEmit"],
        cwd=WEB, env=environment, capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    subprocess.run(["node", "build.mjs", str(tmp_path)], cwd=WEB, env=environment, check=True, timeout=250)

    assert (checked.returncode, checked.stdout) == (0, "")
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == STATIC.joinpath(name).read_bytes(), f"run `make web`: {name} is old"


def test_the_bundle_is_small() -> None:
    assert sum(len(gzip.compress(STATIC.joinpath(name).read_bytes())) for name in NAMES) <= MAX_COMPRESSED


def test_the_licences_of_what_is_bundled_are_in_the_package() -> None:
    licences = STATIC.joinpath("LICENSES.txt").read_text("utf-8")

    assert re.search(r"^preact \d+\.\d+\.\d+ \(MIT\)$", licences, re.MULTILINE)
    assert "Permission is hereby granted" in licences


def test_the_program_makes_no_html_of_text_and_names_no_other_host() -> None:
    program = STATIC.joinpath("inspector.js").read_text("utf-8")

    for word in ("insertAdjacentHTML", "outerHTML", "document.write", "eval(", "new Function", "importScripts"):
        assert word not in program
    # Preact has a property for it, which the sources do not use, and the policy of the page forbids.
    assert not [path for path in WEB.glob("src/**/*.ts*") if "nnerHTML" in path.read_text("utf-8")]
    assert set(re.findall(r"https?://[^\"'`\s]+", program)) <= {
        "http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML", "http://www.w3.org/1999/xhtml",
    }  # fmt: skip
