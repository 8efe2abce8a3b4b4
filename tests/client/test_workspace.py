"""Files for agents: those of the session's own directories, unsaved text first, hooks asked, nothing else touched."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from duologue.client.services.byte_budget import ByteBudget
from duologue.client.services.workspace import Workspace
from duologue.errors import InvalidParams, InvalidRequest, RequestError, ResourceNotFound
from tests.local.sandbox import snapshot

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """Make a directory to work in, next to one that must stay unchanged."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("no session may read this\n")
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "a").write_text("one\ntwo\nthree\nfour\nfive\n")
    before = snapshot(outside)
    yield directory
    assert snapshot(outside) == before


def opened(project: Path, *roots: Path, session_id: str = "s", workspace: Workspace | None = None) -> Workspace:
    workspace = workspace or Workspace()
    workspace.open_session(session_id, [str(project), *map(str, roots)])
    return workspace


async def refused(workspace: Workspace, path: object, session_id: str = "s") -> RequestError:
    """Why neither reading nor writing there works: for the same reason."""
    with pytest.raises(RequestError) as reading:
        await workspace.read(session_id, str(path))
    with pytest.raises(RequestError) as writing:
        await workspace.write(session_id, str(path), "x")
    assert (reading.type, reading.value.message) == (writing.type, writing.value.message)
    return reading.value


# --- reading and writing


@pytest.mark.rule(102)
async def test_lines_count_from_one(project: Path) -> None:
    workspace = opened(project)

    assert await workspace.read("s", str(project / "a"), line=2, limit=2) == "two\nthree\n"
    assert await workspace.read("s", str(project / "a"), line=9) == ""
    assert await workspace.read("s", str(project / "a")) == (project / "a").read_text()
    workspace.close_session("s")


@pytest.mark.rule(101)
async def test_writing_makes_files_and_their_directories(project: Path) -> None:
    workspace = opened(project)

    await workspace.write("s", str(project / "new" / "deep" / "file"), "text\r\n")
    assert (project / "new" / "deep" / "file").read_bytes() == b"text\r\n"
    workspace.close_session("s")


@pytest.mark.rule(104)
async def test_a_missing_file_is_an_error_or_empty_as_is_set(project: Path) -> None:
    strict = opened(project)
    with pytest.raises(ResourceNotFound, match="no such file") as missing:
        await strict.read("s", str(project / "b"))
    assert missing.value.code == -32002
    assert missing.value.data == {"uri": (project / "b").as_uri()}

    lenient = opened(project, workspace=Workspace(missing="empty"))
    assert await lenient.read("s", str(project / "b")) == ""
    strict.close_session("s")
    lenient.close_session("s")


async def test_a_read_only_workspace_writes_nothing(project: Path) -> None:
    workspace = opened(project, workspace=Workspace(read_only=True))

    assert workspace.is_read_only
    with pytest.raises(InvalidRequest, match="read-only"):
        await workspace.write("s", str(project / "a"), "x")
    workspace.close_session("s")


# --- whose directories


@pytest.mark.fault("FSB-22")
async def test_the_directories_of_the_named_session_count(project: Path, tmp_path: Path) -> None:
    wide, narrow = opened(tmp_path, session_id="wide"), project
    wide.open_session("narrow", [str(narrow)])

    assert await wide.read("wide", str(tmp_path / "outside" / "secret"))
    assert "outside the directories" in (await refused(wide, tmp_path / "outside" / "secret", "narrow")).message
    assert isinstance(await refused(wide, project / "a", "unknown"), ResourceNotFound)
    wide.close_session("narrow")
    assert isinstance(await refused(wide, project / "a", "narrow"), ResourceNotFound)
    wide.close_session("wide")


@pytest.mark.fault("FSB-22")
async def test_an_agent_that_takes_the_id_of_anothers_session_gets_nothing_of_it(project: Path, tmp_path: Path) -> None:
    shared = Workspace()
    first, second = shared.for_agent(), shared.for_agent()
    first.open_session("same", [str(project)])
    second.open_session("same", [str(tmp_path / "outside")])

    assert await first.read("same", str(project / "a"))
    assert "outside the directories" in (await refused(second, project / "a", "same")).message
    assert "outside the directories" in (await refused(first, tmp_path / "outside" / "secret", "same")).message
    first.close_session("same")
    second.close_session("same")


async def test_only_files_of_the_workspace_and_of_the_session_exist(tmp_path: Path) -> None:
    for name in ("a/b/c", "x"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("f", "a/f", "a/b/f", "a/b/c/f", "x/f"):
        (tmp_path / name).write_text(name)

    async def readable(workspace: Path, *session: Path) -> list[str]:
        files = opened(session[0], *session[1:], workspace=Workspace(workspace))
        found: list[str] = []
        for name in ("f", "a/f", "a/b/f", "a/b/c/f", "x/f"):
            try:
                found.append(await files.read("s", str(tmp_path / name)))
            except InvalidParams:
                pass
        files.close_session("s")
        return found

    assert await readable(tmp_path / "a", tmp_path / "a" / "b") == ["a/b/f", "a/b/c/f"]
    assert await readable(tmp_path / "a" / "b", tmp_path / "a") == ["a/b/f", "a/b/c/f"]
    assert await readable(tmp_path / "a", tmp_path / "x") == []
    assert await readable(tmp_path / "a", tmp_path / "x", tmp_path / "a" / "b" / "c") == ["a/b/c/f"]
    assert await readable(tmp_path / "a", tmp_path) == ["a/f", "a/b/f", "a/b/c/f"]


async def test_directories_that_are_none_here_hold_no_files(project: Path) -> None:
    workspace = opened(project / "missing", project / "a", Path("relative"))

    assert "outside the directories" in (await refused(workspace, project / "a")).message
    workspace.close_session("s")


@pytest.mark.parametrize("path", ["a", "", "~/a", "file:///etc/passwd", "/etc/passwd", "{project}/../outside/secret"])
async def test_paths_that_are_none_or_lead_outside_are_refused(project: Path, path: str) -> None:
    workspace = opened(project)

    assert isinstance(await refused(workspace, path.format(project=project)), InvalidParams)
    workspace.close_session("s")


# --- what was judged is what is opened


async def test_a_path_that_becomes_a_link_after_it_was_judged_is_not_followed(project: Path) -> None:
    workspace = opened(project)
    (project / "open").mkdir()
    (project / "open" / "f").write_text("open")
    (project / "closed").mkdir()
    (project / "closed" / "f").write_text("closed")
    path = str(project / "open" / "f")
    resolved = await workspace.resolve("s", path)
    (project / "open").rename(project / "gone")
    (project / "open").symlink_to("closed")

    for act in (
        workspace.read("s", path, resolved=resolved),
        workspace.write("s", path, "x", resolved=resolved),
    ):
        with pytest.raises(InvalidParams, match="leads elsewhere than when it was checked"):
            await act
    assert (project / "closed" / "f").read_text() == "closed"
    assert await workspace.read("s", path) == "closed"
    workspace.close_session("s")


async def test_a_directory_swapped_for_a_link_all_the_time_never_gives_the_other_file(
    project: Path, chaos_factor: int
) -> None:
    for name in ("open", "closed"):
        (project / name).mkdir()
        (project / name / "f").write_text(name)
    (project / "link").symlink_to("closed")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            (project / "open").rename(project / "aside")
            (project / "link").rename(project / "open")
            (project / "open").rename(project / "link")
            (project / "aside").rename(project / "open")

    swapping = threading.Thread(target=swap)
    workspace, seen = opened(project), set[str]()
    path = str(project / "open" / "f")
    swapping.start()
    try:
        for _ in range(300 * chaos_factor):
            try:
                seen.add(await workspace.read("s", path, resolved=path))
            except (InvalidParams, ResourceNotFound, RequestError):
                seen.add("refused")
    finally:
        over.set()
        swapping.join()
    assert seen <= {"open", "refused"}
    workspace.close_session("s")


async def test_the_real_path_is_returned_without_links(project: Path) -> None:
    workspace = opened(project)
    (project / "sub").mkdir()
    (project / "link").symlink_to("sub")
    (project / "absolute").symlink_to(project / "sub")

    for path in ("link/x", "absolute/x", "./sub//x", "sub/../link/x", "sub/x"):
        assert await workspace.resolve("s", f"{project}/{path}") == str(project / "sub" / "x")
    assert await workspace.resolve("s", str(project / "new" / "deep")) == str(project / "new" / "deep")
    with pytest.raises(InvalidParams):
        await workspace.resolve("s", str(project / ".." / "outside" / "secret"))
    workspace.close_session("s")


async def test_an_error_speaks_of_the_path_that_was_asked_for(project: Path) -> None:
    workspace = opened(project)
    (project / "sub").mkdir()
    (project / "sub" / "binary").write_bytes(b"\xff\xfe")
    (project / "link").symlink_to("sub")

    with pytest.raises(InvalidParams, match="link/binary': not UTF-8"):
        await workspace.read("s", str(project / "link" / "binary"))
    with pytest.raises(ResourceNotFound, match="link/missing': no such file") as missing:
        await workspace.read("s", str(project / "link" / "missing"))
    assert missing.value.data == {"uri": (project / "link" / "missing").as_uri()}
    workspace.close_session("s")


# --- protected places


@pytest.mark.fault("FSB-20")
@pytest.mark.parametrize(
    "path", [".git/hooks/x", ".git/config", "sub/.git/config", ".vscode/tasks.json", "link/config"]
)
async def test_protected_paths_need_explicit_permission(project: Path, path: str) -> None:
    workspace = opened(project)
    (project / ".git").mkdir()
    (project / "link").symlink_to(".git")

    with pytest.raises(InvalidRequest, match="needs explicit permission"):
        await workspace.write("s", str(project / path), "x")
    assert not (project / path).exists()
    await workspace.write("s", str(project / path), "x", even_protected=True)
    assert (project / path).read_text() == "x"
    workspace.close_session("s")


# --- unsaved text


@pytest.mark.rule(103)
@pytest.mark.fault("FSC-14")
@pytest.mark.parametrize("form", ["mapping", "function"])
async def test_unsaved_text_is_read_instead_of_the_file(project: Path, form: str) -> None:
    buffers = {str(project / "a"): "new\nun\u2028saved\r\nlast", str(project / "unsaved"): "never on disk"}

    def unsaved(path: Path) -> str | None:
        return buffers.get(str(path))

    workspace = opened(project, workspace=Workspace(overlay=buffers if form == "mapping" else unsaved))

    assert await workspace.read("s", str(project / "a")) == "new\nun\u2028saved\r\nlast"
    assert await workspace.read("s", str(project / "a"), line=2, limit=1) == "un\u2028saved\r\n"
    assert await workspace.read("s", str(project / "a"), line=3) == "last"
    assert await workspace.read("s", str(project / "a"), line=4) == ""
    assert await workspace.read("s", str(project / "a"), limit=0) == ""
    assert await workspace.read("s", str(project / "unsaved")) == "never on disk"
    with pytest.raises(InvalidParams, match="cannot be negative"):
        await workspace.read("s", str(project / "a"), line=-1)
    workspace.close_session("s")


@pytest.mark.parametrize("text", ["", "\n", "a", "a\n", "a\n\nb", "\n\n", "a\r\nb\rc\n"])
async def test_lines_of_unsaved_text_are_those_of_a_file_with_that_text(project: Path, text: str) -> None:
    (project / "saved").write_bytes(text.encode())
    workspace = opened(project, workspace=Workspace(overlay={str(project / "unsaved"): text}))

    for line in (None, 0, 1, 2, 3, 9):
        for limit in (None, 0, 1, 2, 9):
            expected = await workspace.read("s", str(project / "saved"), line=line, limit=limit)
            assert await workspace.read("s", str(project / "unsaved"), line=line, limit=limit) == expected
    workspace.close_session("s")


async def test_unsaved_text_of_files_outside_stays_there(project: Path, tmp_path: Path) -> None:
    secret = str(tmp_path / "outside" / "secret")
    workspace = opened(project, workspace=Workspace(overlay={secret: "unsaved secret"}, max_read_bytes=10))
    (project / "link").symlink_to(secret)

    assert "outside the directories" in (await refused(workspace, secret)).message
    assert "outside the directories" in (await refused(workspace, project / "link")).message
    workspace.close_session("s")


async def test_unsaved_text_is_limited_as_files_are(project: Path) -> None:
    workspace = opened(project, workspace=Workspace(overlay={str(project / "a"): "é" * 6}, max_read_bytes=10))

    with pytest.raises(InvalidParams, match="longer than the limit of 10 bytes"):
        await workspace.read("s", str(project / "a"))
    workspace.close_session("s")


@pytest.mark.fault("FSC-14")
async def test_a_write_over_unsaved_text_that_was_not_read_is_a_conflict(project: Path) -> None:
    path, buffers = str(project / "a"), {str(project / "a"): "typed"}
    workspace = opened(project, workspace=Workspace(overlay=buffers))

    with pytest.raises(InvalidRequest, match="unsaved changes that were not read"):
        await workspace.write("s", path, "agent")
    assert await workspace.read("s", path) == "typed"
    buffers[path] = "typed more"
    with pytest.raises(InvalidRequest, match="unsaved changes"):
        await workspace.write("s", path, "agent")
    workspace.open_session("t", [str(project)])
    await workspace.read("t", path)
    with pytest.raises(InvalidRequest, match="unsaved changes"):
        await workspace.write("s", path, "agent")
    assert buffers == {path: "typed more"}
    assert (project / "a").read_text().startswith("one")

    await workspace.read("s", path)
    await workspace.write("s", path, "agent")
    assert (project / "a").read_text() == buffers[path] == "agent"
    await workspace.write("s", path, "agent again")
    assert (project / "a").read_text() == buffers[path] == "agent again"
    workspace.close_session("s")
    workspace.close_session("t")


async def test_an_editor_with_an_overlay_function_is_notified_of_writes(project: Path) -> None:
    path, notified = str(project / "a"), list[tuple[Path, str]]()
    buffers: Mapping[str, str] = MappingProxyType({path: "typed"})

    def written(at: Path, text: str) -> None:
        notified.append((at, text))
        raise RuntimeError("and fails")

    workspace = opened(project, workspace=Workspace(overlay=buffers, on_written=written))
    await workspace.read("s", path)
    await workspace.write("s", path, "agent")
    assert notified == [(project / "a", "agent")]
    assert (project / "a").read_text() == "agent"
    workspace.close_session("s")


# --- hooks


async def test_hooks_see_every_act_and_can_forbid_it(project: Path) -> None:
    seen: list[object] = []

    async def on_read(path: Path) -> bool:
        seen.append(path.name)
        return path.name != "forbidden"

    async def on_write(path: Path, text: str) -> None:
        seen.append((path.name, text))
        if path.name == "broken":
            raise RuntimeError("a bug")
        if path.name == "full":
            raise InvalidRequest("no room")

    workspace = opened(project, workspace=Workspace(on_read=on_read, on_write=on_write))
    (project / "link").symlink_to("forbidden")
    (project / "forbidden").write_text("x")

    assert await workspace.read("s", str(project / "a"))
    for name in ("forbidden", "link"):
        with pytest.raises(InvalidRequest, match="not permitted by the client"):
            await workspace.read("s", str(project / name))
    await workspace.write("s", str(project / "b"), "text")
    with pytest.raises(InvalidRequest, match="not permitted by the client"):
        await workspace.write("s", str(project / "broken"), "x")
    with pytest.raises(InvalidRequest, match="no room"):
        await workspace.write("s", str(project / "full"), "x")

    assert seen == ["a", "forbidden", "forbidden", ("b", "text"), ("broken", "x"), ("full", "x")]
    assert sorted(snapshot(project)) == ["a", "b", "forbidden", "link"]
    workspace.close_session("s")


@pytest.mark.fault("PRC-21")
async def test_texts_that_are_read_at_once_take_no_more_than_they_are_allowed(project: Path) -> None:
    """Each counts until the task that reads it has ended, which is when its answer has been taken."""
    workspace, allowance = opened(project), ByteBudget(25)
    may_end, read = asyncio.Event(), asyncio.Semaphore(0)
    texts: list[str] = []
    (project / "b").write_text("x" * 10)

    async def answer() -> None:
        texts.append(await workspace.read("s", str(project / "b"), budget=allowance))
        read.release()
        await may_end.wait()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        tasks = [group.create_task(answer()) for _ in range(5)]
        for _ in range(2):
            await read.acquire()
        large = group.create_task(workspace.read("s", str(project / "a"), budget=allowance))
        await asyncio.wait({large}, timeout=0.05)
        assert len(texts) == 2
        assert not large.done()
        tasks[-1].cancel()  # one that waits gives its place away
        may_end.set()
    assert texts == ["x" * 10] * 4
    assert large.result().startswith("one\n")


@pytest.mark.fault("PRC-21")
async def test_a_text_that_no_message_could_hold_is_refused(project: Path) -> None:
    workspace = opened(project, workspace=Workspace(max_read_bytes=1000))
    (project / "b").write_bytes(b"\x01" * 500)
    (project / "c").write_bytes(b"\n" * 1000)
    with pytest.raises(InvalidParams, match="control characters"):
        await workspace.read("s", str(project / "b"))
    assert await workspace.read("s", str(project / "c")) == "\n" * 1000
