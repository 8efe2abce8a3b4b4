"""/read, /write, /edit, /search, /files: for real, in the session's directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from duologue.builtin.agent import builtin_agent
from duologue.builtin.commands.files import MAX_FOUND, MAX_LISTED, MAX_SHOWN
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.wire_client import client_for
from tests.builtin.harness import Harness, open_harness


async def test_reading_needs_no_permission_in_any_mode_and_shows_line_numbers(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("one\ntwo\nthree\n")

    async with open_harness(tmp_path) as harness:
        for mode in ("ask", "architect", "code"):
            await harness.mode(mode)
            text = await harness.ask("/read notes.md 2 1")

            assert "`notes.md`: 1 lines, 4 characters" in text
            assert harness.shown_text == "```\n    2  two\n```\n"
            assert harness.of(v1.ToolCall)[0].kind == "read"
            assert harness.of(v1.ToolCall)[0].locations == [
                v1.ToolCallLocation(path=str(tmp_path / "notes.md"), line=2)
            ]
            assert harness.status == "completed"
        assert harness.asked == []


async def test_line_numbers_can_be_switched_off_and_fences_are_longer_than_those_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a file.md").write_text("```\n````\n")

    async with open_harness(tmp_path) as harness:
        await harness.ask("/config numbers false")
        await harness.ask("/read a file.md")
        assert harness.shown_text == "`````\n```\n````\n`````\n"
        await harness.ask('/read "a file.md" 2')
        assert harness.shown_text == "`````\n````\n`````\n"


async def test_a_file_that_is_missing_or_outside_fails_the_tool_and_not_the_turn(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert "I could not read `README.md`" in await harness.ask("/read")
        assert harness.status == "failed"
        assert "I could not read `/etc/hostname`" in await harness.ask("/read /etc/hostname")
        assert harness.status == "failed"


async def test_of_a_long_file_only_the_beginning_is_shown(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("x" * (MAX_SHOWN + 1))

    async with open_harness(tmp_path) as harness:
        assert "I showed the first 100,000 of them" in await harness.ask("/read long.txt")


@pytest.mark.parametrize(
    ("command", "before", "after"),
    [
        ("/write notes.md two  words\nand a line", None, "two  words\nand a line\n"),
        ("/write notes.md new", "old\n", "new\n"),
        ('/write "notes.md" new', "old\n", "new\n"),
        ("/edit notes.md old 'quite new'", "old and old\n", "quite new and old\n"),
        ("write hello to notes.md", None, "hello\n"),
        ("replace old with new in notes.md", "old\n", "new\n"),
    ],
)
async def test_writing_shows_the_diff_and_asks_first_in_the_default_mode(
    tmp_path: Path, command: str, before: str | None, after: str
) -> None:
    file = tmp_path / "notes.md"
    if before is not None:
        file.write_text(before)
    diff = v1.Diff(path=str(file), old_text=before, new_text=after)

    async with open_harness(tmp_path, choose="reject_once") as harness:
        assert "I left `notes.md` as it was" in await harness.ask(command)
        (question,) = harness.asked
        assert {"allow_once", "reject_once"} <= {option.kind for option in question.options}
        assert question.tool_call.content == [diff]
        assert [(update.status, update.content) for update in harness.of(v1.ToolCallUpdate)] == [
            ("pending", [diff]),
            ("failed", None),
        ]
        assert (file.read_text() if file.exists() else None) == before

        harness.choose = "allow_once"
        assert "I wrote `notes.md`" in await harness.ask(command)
        assert harness.of(v1.ToolCall)[0].kind == "edit"
        assert harness.status == "completed"
        assert file.read_text() == after


async def test_an_answer_for_always_is_not_asked_for_again(tmp_path: Path) -> None:
    async with open_harness(tmp_path, choose="allow_always") as harness:
        await harness.ask("/write notes.md one")
        await harness.ask("/write notes.md two")
        await harness.ask("/write other.md two")

        assert [question.tool_call.title for question in harness.asked] == ["Write notes.md", "Write other.md"]


async def test_an_edit_without_arguments_is_an_example_that_goes_to_and_fro(tmp_path: Path) -> None:
    example = tmp_path / "duologue-example.txt"

    async with open_harness(tmp_path) as harness:
        texts: list[str] = []
        for _ in range(3):
            await harness.ask("show me a diff")
            texts.append(example.read_text())
        assert texts[0] == texts[2] != texts[1]
        await harness.ask("/write")
        assert example.read_text() == texts[0]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("/edit notes.md nothing something", "There is no `nothing` in `notes.md`"),
        ("/edit missing.md a b", "I cannot read `missing.md`"),
        ("/edit notes.md", "Say `/edit path old new`"),
        ("/edit notes.md 'a b", "I cannot read that: No closing quotation"),
        ("/write /etc/duologue-was-here no", "I could not write `/etc/duologue-was-here`"),
    ],
)
async def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path, command: str, text: str) -> None:
    (tmp_path / "notes.md").write_text("text\n")

    async with open_harness(tmp_path) as harness:
        assert text in await harness.ask(command)
        assert (tmp_path / "notes.md").read_text() == "text\n"


async def test_a_search_finds_lines_in_every_root_and_tells_where_to_look(tmp_path: Path) -> None:
    more = tmp_path / "more"
    here = tmp_path / "here"
    for path, text in {
        here / "a.txt": "no\nneedle in a\n",
        here / "sub" / "b.txt": "needle\n",
        here / ".hidden" / "c.txt": "needle\n",
        here / "node_modules" / "d.js": "needle\n",
        here / "binary": "needle\0",
        more / "e.txt": "the needle\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (here / "binary").write_bytes(b"needle\xff")
    (here / "link.txt").symlink_to(more / "e.txt")

    async with open_harness(here, additional_directories=[str(more)]) as harness:
        assert "`needle`: 3 lines" in await harness.ask("/search needle")
        assert (
            harness.shown_text == f"```\na.txt:2: needle in a\nsub/b.txt:1: needle\n{more}/e.txt:1: the needle\n```\n"
        )
        locations = [update.locations for update in harness.of(v1.ToolCallUpdate) if update.locations][-1]
        assert [(Path(location.path).name, location.line) for location in locations] == [
            ("a.txt", 2),
            ("b.txt", 1),
            ("e.txt", 1),
        ]
        assert harness.of(v1.ToolCall)[0].kind == "search"
        await harness.ask("list the files")
        assert harness.shown_text == f"```\na.txt\nbinary\nsub/b.txt\n{more}/e.txt\n```\n"


async def test_lists_end_where_a_screen_does(tmp_path: Path) -> None:
    for number in range(MAX_LISTED + 1):
        (tmp_path / f"{number:03}.txt").write_text("TODO\n")

    async with open_harness(tmp_path) as harness:
        assert "the first 200 of many" in await harness.ask("/files")
        assert f"at least {MAX_FOUND} lines" in await harness.ask("/search")


async def test_files_are_the_editors_where_it_offers_them(tmp_path: Path) -> None:
    unsaved = {str(tmp_path / "notes.md"): "unsaved\n"}
    fs = v1.FileSystemCapabilities(read_text_file=True, write_text_file=True)
    async with client_for(builtin_agent(), tmp_path, fs=fs) as client:
        harness = Harness(client, "allow_once")

        @client.handlers.on(v1.FS_READ_TEXT_FILE)
        async def read(context: Context, params: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
            return v1.ReadTextFileResponse(content=unsaved[params.path])

        @client.handlers.on(v1.FS_WRITE_TEXT_FILE)
        async def write(context: Context, params: v1.WriteTextFileRequest) -> v1.WriteTextFileResponse:
            unsaved[params.path] = params.content
            return v1.WriteTextFileResponse()

        harness.session = await client.new()
        await harness.ask("/read notes.md")
        assert "unsaved" in harness.shown_text
        await harness.ask("/edit notes.md unsaved edited")
        assert unsaved == {str(tmp_path / "notes.md"): "edited\n"}
        assert not (tmp_path / "notes.md").exists()
