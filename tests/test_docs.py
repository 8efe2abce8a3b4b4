"""The documentation: its pages exist, its links lead somewhere, its programs run."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import duologue
from duologue.cli.parser import each_command, subcommands
from scripts.page_examples import with_examples
from tests.interop import peers

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FRONT_MATTER = sorted(ROOT.glob("*.md"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _nav_pages(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for entry in nav.values() if isinstance(nav, dict) else nav:  # pyright: ignore[reportUnknownVariableType]
            yield from _nav_pages(entry)


def test_the_navigation_and_the_pages_are_the_same_set() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]

    assert sorted(_nav_pages(nav)) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


@pytest.mark.parametrize("word", ["persist_sessions", "TurnIncomplete", "max_transcript_bytes", "serve", "seed"])
def test_the_search_of_the_site_knows_a_name_of_the_library_as_one_word(word: str) -> None:
    plugins = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["plugins"]
    separator = next(plugin["search"]["separator"] for plugin in plugins if "search" in plugin)
    pages = [page for page in PAGES if word in re.split(separator, page.read_text("utf-8"))]

    assert pages


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("jupyter", "from-a-notebook.md"),
        ("docker", "scripts-and-ci.md"),
        ("multi-line", "chat.md"),
        ("show a diff", "permissions-in-agents.md"),
        ("forgot await", "troubleshooting.md"),
    ],
)
def test_the_search_of_the_site_finds_the_page_with_the_words_of_a_user(query: str, name: str) -> None:
    plugins = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["plugins"]
    separator = next(plugin["search"]["separator"] for plugin in plugins if "search" in plugin)
    words = re.split(separator, (DOCS / "how-to" / name).read_text("utf-8").lower())

    assert set(re.split(separator, query)) <= set(words)


def test_every_message_that_is_a_heading_of_troubleshooting_is_one_of_the_library() -> None:
    headings = re.findall("^### (.+)$", (DOCS / "how-to" / "troubleshooting.md").read_text("utf-8"), re.MULTILINE)
    literals = (  # of strings in parts, and of what stands between the values of a format
        node.value
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    text = "\n".join(literals)
    # Names that a message quotes, and numbers, differ from case to case.
    parts = {heading: re.split(r"`say`|`request_permission`|`turn\.tool|`prompt`|…", heading) for heading in headings}

    assert len(headings) > 5
    assert [
        heading for heading, found in parts.items() if not any(len(part) > 5 and part.strip() in text for part in found)
    ] == []


@pytest.mark.parametrize("page", [*PAGES, *FRONT_MATTER], ids=_name)
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    links = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", page.read_text("utf-8"))
    files = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]

    assert [file for file in files if not (page.parent / file).exists()] == []


def test_every_example_is_shown_on_a_page() -> None:
    text = "".join(page.read_text("utf-8") for page in [*PAGES, *FRONT_MATTER])

    assert [_name(example) for example in EXAMPLES if _name(example) not in text] == []


@pytest.mark.parametrize("page", [*PAGES, *FRONT_MATTER], ids=_name)
def test_every_file_that_a_page_includes_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    included = re.findall(r'--8<-- "([^"]+)"|```\w+ title="([^"]+)"', text)

    assert [file for files in included for file in files if file and not (ROOT / file).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_example_on_a_page_is_the_code_of_its_file(page: Path) -> None:
    """`python -m scripts.page_examples` writes them."""
    text = page.read_text("utf-8")

    assert with_examples(text) == text


@pytest.mark.parametrize("indent", ["", "    "])
def test_the_code_of_a_file_replaces_the_text_of_its_fence(indent: str) -> None:
    head = f'{indent}```python title="examples/migration/agent.py"\n'
    page = with_examples(f"before\n\n{head}{indent}old\n{indent}```\n\nafter\n")

    assert page.startswith(f"before\n\n{head}{indent}from duologue import Agent, Turn\n\n{indent}agent = ")
    assert page.endswith(f"\n{indent}agent.run()\n{indent}```\n\nafter\n")
    assert "[end:program]" not in page


def _without_examples(page: Path) -> str:
    """Return a page without the code of example files, which may belong to other libraries."""
    return re.sub(r"^ *```\w+ title=.*?^ *```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def _python_blocks(page: Path) -> list[str]:
    """Return the programs of a page that are not those of an example file."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [*PAGES, *FRONT_MATTER], ids=_name)
def test_every_python_block_is_python(page: Path) -> None:
    for block in _python_blocks(page):
        compile(block, _name(page), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


PROGRAMS = [
    pytest.param(block, id=_name(page))
    for page in [*PAGES, *FRONT_MATTER]
    for block in _python_blocks(page)
    if block.rstrip().endswith("asyncio.run(main())")
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_whole_program_on_a_page_runs(program: str) -> None:
    beside = str(Path(sys.executable).parent)  # where the `duologue` command is
    env = {**os.environ, "PATH": beside + os.pathsep + os.environ["PATH"]}
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, env=env
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout


def test_the_first_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    commands = re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE)

    assert commands[:2] == ["run", "test"]
    assert set(commands) <= set(targets)


def test_every_target_that_the_documentation_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {
        (target, _name(page))
        for page in [*PAGES, *FRONT_MATTER]
        for target in re.findall(r"`make ([a-z-]+)`", page.read_text("utf-8"))
    }

    assert {(target, page) for target, page in named if target not in targets} == set()


def test_every_path_that_contributing_names_exists() -> None:
    named = re.findall(
        r"`([\w./-]+/(?:[\w.-]+\.\w+)?|[\w/]+\.(?:py|md))`", (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    )
    roots = [ROOT, ROOT / "src" / "duologue", *(ROOT / "src" / "duologue").iterdir(), ROOT / "tests" / "interop"]

    assert len(named) > 40
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []


def test_every_package_is_on_the_map_of_contributing() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "duologue").glob("*/__init__.py")}
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)

    assert sorted(rows) == sorted(packages)


def test_the_agent_of_the_readme_answers(tmp_path: Path) -> None:
    [program] = [block for block in _python_blocks(ROOT / "README.md") if "duologue.run(" in block]
    (tmp_path / "agent.py").write_text(program)
    duologue = Path(sys.executable).parent / "duologue"
    command = [str(duologue), "run", "hello", "--", sys.executable, str(tmp_path / "agent.py")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)

    assert (ended.returncode, ended.stdout) == (0, "You said: hello")


def test_the_numbers_of_the_readme_are_those_of_the_pages_that_it_links() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    faults = re.search(
        r"^(\d+) passed, .* of (\d+)\.", (DOCS / "project" / "faults.md").read_text("utf-8"), re.MULTILINE
    )
    models = [(ROOT / "src/duologue/schema" / version / "models.py").read_text("utf-8") for version in ("v1", "v2")]
    bench = (DOCS / "project" / "benchmarks.md").read_text("utf-8")
    [updates] = re.findall(r"^\| 20,000 updates in a turn, CPU of both sides.*", bench, re.MULTILINE)
    [names] = re.findall(r"^\| what .*", bench, re.MULTILINE)
    columns = dict(zip(*([cell.strip() for cell in row.split("|")] for row in (names, updates)), strict=True))
    ours, public, official = (
        float(columns[column].partition(" ")[0].replace(",", ""))
        for column in ("duologue", "duologue, public API", "official 0.12.1")
    )

    assert faults is not None
    assert f"{faults[1]} of {faults[2]} [listed faults]" in readme
    assert f"{sum(len(re.findall(r'^class ', text, re.MULTILINE)) for text in models)} message classes" in readme
    assert f"takes {official / ours:.0f} times less CPU" in readme
    assert f"{official / public:.0f} times less with everything" in readme


def test_the_comparison_names_the_versions_that_the_tests_run_against() -> None:
    page = (DOCS / "topics" / "comparison.md").read_text("utf-8")
    [official] = re.findall(r"^\| \| duologue \S+ \| official (\S+) \| official (\S+) \|$", page, re.MULTILINE)
    [others] = re.findall(r"^\| \| duologue \| (TypeScript .*) \|$", page, re.MULTILINE)
    named = [f"python-{release}" for release in official] + [
        f"{language.lower()}-{release}" for language, release in re.findall(r"(\w+) ([\d.]+)", others)
    ]

    assert sorted(named) == sorted(peers.ALL)


@pytest.mark.parametrize(
    ("name", "file", "pin"),
    [
        (peers.RUST, "rust/Cargo.toml", r'agent-client-protocol = \{ version = "=([\d.]+)"'),
        (peers.GO, "go/go.mod", r"acp-go-sdk v([\d.]+)"),
        (peers.JAVA, "java/pom.xml", r"<artifactId>acp[\w-]*</artifactId>\s*<version>([\d.]+)<"),
        (peers.KOTLIN, "kotlin/pom.xml", r"<artifactId>acp[\w-]*</artifactId>\s*<version>([\d.]+)<"),
    ],
)
def test_the_name_of_another_sdk_has_the_version_that_is_pinned(name: str, file: str, pin: str) -> None:
    assert set(re.findall(pin, (peers.PEERS / file).read_text("utf-8"))) == {peers.release(name)}


def test_the_image_of_the_readme_shows_a_whole_tour() -> None:
    image = (ROOT / "docs" / "images" / "tour.svg").read_text("utf-8")

    assert all(word in image for word in ("duologue", "Write", "Edit", "execute", "tools"))
    assert re.findall(r"(?:href|src|url)[=(]\W*http", image) == []


OTHER_PROGRAMS = {
    *(
        "--acp",
        "--rm",
        "--init",
        "--from",
        "--full-trace",
        "--acp-update-snapshots",
        "--eval-agent",
        "--eval-trials",
        "--eval-runs",
        "--trace",
        "--format",
        "--ws",
        "--check",
        "--only",
        "--planner",
        "--write",
        "--release",
        "--count",
        "--compare",
        "--costs",
        "--path",
        "--log-dir",
        "--output-dir",
        "--predictions",
        "--run",
    ),
    *("--enable-auto-tool-choice", "--jinja", "--tool-call-parser"),
    *("--api-key", "--repository", "--compress-prog", "--max-c", "--max-count", "--upload-pa"),
    # Those of Dask, Ray and Helm.
    *(
        "--create-namespace",
        "--generate-name",
        "--head",
        "--no-dashboard",
        "--no-nanny",
        "--nthreads",
        "--num-cpus",
        "--nworkers",
        "--port",
        "--protocol",
        "--ray-client-server-port",
        "--repo",
    ),
}


def test_every_option_that_a_page_names_exists() -> None:
    known = {
        option
        for _, parser in each_command().values()
        for each in (parser, *(nested for _, nested in subcommands(parser).values()))
        for action in each._actions
        for option in action.option_strings
    }
    named = {
        (option, _name(page))
        for page in [*PAGES, *FRONT_MATTER]
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", _without_examples(page))
    }

    assert {(option, page) for option, page in named if option not in known | OTHER_PROGRAMS} == set()


@pytest.mark.parametrize("name", ["Agent", "Permissions", "Terminals", "Workspace", "connect"])
def test_every_keyword_that_a_page_names_exists(name: str) -> None:
    known = set(inspect.signature(getattr(duologue, name)).parameters)
    named = {
        (keyword, _name(page))
        for page in [*PAGES, *FRONT_MATTER]
        for arguments in re.findall(rf"(?<![\w.]){name}\(([^()]*)", _without_examples(page))
        for keyword in re.findall(r"\b(\w+)=", arguments)
    }

    assert {(keyword, page) for keyword, page in named if keyword not in known} == set()


def test_the_lock_file_names_no_index() -> None:
    assert "://" not in (ROOT / "requirements-dev.lock").read_text("utf-8")


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.parent.name in ("tutorial", "how-to") and page.name != "install.md"],
    ids=_name,
)
def test_every_page_with_lines_to_type_says_once_how_to_install(page: Path) -> None:
    text = page.read_text("utf-8")
    has_lines = re.search(r"```(sh|console|python)", text) is not None

    assert len(re.findall(r"\((?:\.\./tutorial/)?install\.md\)", text)) == int(has_lines)
