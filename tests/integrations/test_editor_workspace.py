"""The editor as a workspace: unsaved text, changes that appear, permission, nothing outside the session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.workspaces import WorkspaceError, WorkspaceTimeoutError, WorkspaceUnavailableError

from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.client.services.workspace import Workspace
from duologue.errors import InvalidParams
from duologue.integrations.pydantic_ai import EditorWorkspace, PermissionRejected, WorkspaceRequest, ask_before_commands
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.complete import ClientServices
from tests.agent.wire_client import RecordingClient, agent_with, client_for
from tests.integrations.open_turns import our_turn, scripted_turn

FILES: dict[str, Any] = {"fs": v1.FileSystemCapabilities(read_text_file=True, write_text_file=True)}


async def run_turn(client: RecordingClient, cwd: Path, **fields: Any) -> None:
    """Run one turn of the agent that the client is connected to."""
    response = await client.prompt(await client.new(cwd, **fields), "go")
    assert response.stop_reason == "end_turn"


# --- text through the editor, everything else on this machine


async def test_unsaved_text_is_read_and_the_file_on_disk_is_not(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("saved")
    overlay = {str(tmp_path / "notes.txt"): "not saved yet"}

    async with asyncio.timeout(60), our_turn(tmp_path, workspace=Workspace(overlay=overlay)) as turn:
        assert await EditorWorkspace(turn).read_bytes(str(tmp_path / "notes.txt")) == b"not saved yet"


async def test_a_change_of_a_text_appears_in_the_editor_and_bytes_go_to_disk(tmp_path: Path) -> None:
    written: list[str] = []
    editor = Workspace(on_written=lambda path, text: written.append(f"{path.name}: {text}"))

    async with asyncio.timeout(60), our_turn(tmp_path, workspace=editor) as turn:
        workspace = EditorWorkspace(turn)
        await workspace.write_bytes(str(tmp_path / "new" / "notes.txt"), b"text")
        await workspace.write_bytes(str(tmp_path / "image.png"), b"\x89PNG\x00")

    assert written == ["notes.txt: text"]
    assert (tmp_path / "new" / "notes.txt").read_text() == "text"
    assert (tmp_path / "image.png").read_bytes() == b"\x89PNG\x00"


async def test_without_the_capability_files_are_those_on_disk(tmp_path: Path) -> None:
    async with asyncio.timeout(60), scripted_turn(tmp_path) as turn:
        workspace = EditorWorkspace(turn)
        await workspace.write_bytes(str(tmp_path / "notes.txt"), b"text")
        assert await workspace.read_bytes(str(tmp_path / "notes.txt")) == b"text"
    assert (tmp_path / "notes.txt").read_text() == "text"


async def test_the_editor_gets_paths_in_its_own_spelling(tmp_path: Path) -> None:
    """An editor finds the unsaved text of a file by the path under which the user opened it."""
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "real" / "a.txt").write_text("on disk")
    (tmp_path / "real" / "sub" / "link.txt").symlink_to("../a.txt")
    (tmp_path / "project").symlink_to("real")
    read: list[bytes] = []

    async def work(turn: Turn[Settings]) -> None:
        workspace = EditorWorkspace(turn)
        directory = await workspace.working_dir()
        assert directory == str(tmp_path / "real")
        read.append(await workspace.read_bytes(f"{directory}/sub/link.txt"))

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, **FILES) as client:
        ClientServices(client).files[str(tmp_path / "project" / "a.txt")] = "unsaved"
        await run_turn(client, tmp_path / "project")
    assert read == [b"unsaved"]


@pytest.mark.parametrize("text", ["plain\n", "\ufeffwith a mark\r\n", "\u202e\U0001f600", "", "x" * 100_000])
async def test_a_text_makes_the_round_trip_through_the_editor_unchanged(tmp_path: Path, text: str) -> None:
    async with asyncio.timeout(60), our_turn(tmp_path) as turn:
        workspace = EditorWorkspace(turn)
        await workspace.write_bytes(str(tmp_path / "text"), text.encode())
        assert await workspace.read_bytes(str(tmp_path / "text")) == text.encode()
    assert (tmp_path / "text").read_bytes() == text.encode()


async def test_a_name_that_is_not_utf8_is_read_and_written_on_disk(tmp_path: Path) -> None:
    name = b"caf\xe9.txt".decode("utf-8", "surrogateescape")

    async with asyncio.timeout(60), our_turn(tmp_path) as turn:
        workspace = EditorWorkspace(turn)
        await workspace.write_bytes(f"{tmp_path}/{name}", b"text")
        assert [entry.name for entry in await workspace.list_dir(str(tmp_path))] == [name]
        assert await workspace.read_bytes(f"{tmp_path}/{name}") == b"text"
        await workspace.remove(f"{tmp_path}/{name}")
    assert os.listdir(tmp_path) == []


# --- an editor that rejects, hangs or is gone


async def test_a_text_that_the_editor_does_not_read_is_not_read_from_disk_instead(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SECRET=1")
    raised: list[str] = []

    async def work(turn: Turn[Settings]) -> None:
        with pytest.raises(WorkspaceError) as error:
            await EditorWorkspace(turn).read_bytes(str(tmp_path / ".env"))
        raised.append(str(error.value))

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, **FILES) as client:

        @client.handlers.on(v1.FS_READ_TEXT_FILE)
        async def reject(context: Context, params: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
            raise InvalidParams("secrets stay here")

        await run_turn(client, tmp_path)
    assert len(raised) == 1
    assert raised[0].endswith(".env': secrets stay here")


async def test_an_editor_that_does_not_answer_is_waited_for_no_longer_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")

    async def work(turn: Turn[Settings]) -> None:
        workspace = EditorWorkspace(turn, request_timeout=0.05)
        with pytest.raises(WorkspaceTimeoutError, match="did not read"):
            await workspace.read_bytes(str(tmp_path / "a.txt"))
        with pytest.raises(WorkspaceTimeoutError, match="did not write"):
            await workspace.write_bytes(str(tmp_path / "b.txt"), b"b")

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, **FILES) as client:

        @client.handlers.on(v1.FS_READ_TEXT_FILE)
        async def read(context: Context, params: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
            await asyncio.Event().wait()
            raise AssertionError

        @client.handlers.on(v1.FS_WRITE_TEXT_FILE)
        async def write(context: Context, params: v1.WriteTextFileRequest) -> v1.WriteTextFileResponse:
            await asyncio.Event().wait()
            raise AssertionError

        await run_turn(client, tmp_path)


async def test_after_the_turn_the_workspace_is_unavailable(tmp_path: Path) -> None:
    async with asyncio.timeout(60), our_turn(tmp_path) as turn:
        workspace = EditorWorkspace(turn)
        await workspace.working_dir()

    for operation in (workspace.working_dir(), workspace.run(["true"]), workspace.exists(str(tmp_path))):
        with pytest.raises(WorkspaceUnavailableError, match="the turn of this workspace is over"):
            await operation


# --- nothing outside the session's directories


@pytest.mark.parametrize("opened", [our_turn, scripted_turn], ids=["our client", "a scripted client"])
@pytest.mark.parametrize("start", ["{home}/outside", "{cwd}/../outside", "{cwd}/link"])
async def test_nothing_outside_the_directories_of_the_session_is_touched(
    tmp_path: Path, opened: Callable[[Path], Any], start: str
) -> None:
    cwd, outside = tmp_path / "project", tmp_path / "outside"
    cwd.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (cwd / "link").symlink_to("../outside")
    start = start.format(home=tmp_path, cwd=cwd)

    async with asyncio.timeout(60), opened(cwd) as turn:
        workspace = EditorWorkspace(turn, policy=lambda request: "allow")
        for operation in (
            workspace.read_bytes(f"{start}/secret"),
            workspace.write_bytes(f"{start}/secret", b"overwritten"),
            workspace.write_bytes(f"{start}/new/file", b"new"),
            workspace.stat(f"{start}/secret"),
            workspace.list_dir(start),
            workspace.make_dir(f"{start}/new"),
            workspace.remove(f"{start}/secret"),
            workspace.realpath(f"{start}/secret"),
        ):
            with pytest.raises(PermissionError, match="outside the directories"):
                await operation
        assert not await workspace.exists(f"{start}/secret")
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("secret", "secret")]


async def test_additional_directories_of_the_session_belong_to_the_workspace(tmp_path: Path) -> None:
    for name in ("project", "library"):
        (tmp_path / name).mkdir()
    (tmp_path / "library" / "a.txt").write_text("a")
    read: list[bytes] = []

    async def work(turn: Turn[Settings]) -> None:
        workspace = EditorWorkspace(turn, policy=lambda request: "allow")
        read.append(await workspace.read_bytes(str(tmp_path / "library" / "a.txt")))
        with pytest.raises(ValueError, match="is not removed"):
            await workspace.remove(str(tmp_path / "library"))

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path) as client:
        await run_turn(client, tmp_path / "project", additional_directories=[str(tmp_path / "library")])
    assert read == [b"a"]


# --- permission


def test_by_default_the_user_is_asked_before_commands_and_removals() -> None:
    asked = [ask_before_commands(WorkspaceRequest(operation=each)) for each in ("read", "write", "remove", "run")]
    assert asked == ["allow", "allow", "ask", "ask"]


@pytest.mark.parametrize("choice", ["allow_once", "reject_once", None])
async def test_a_removal_is_asked_for_and_done_only_if_it_is_allowed(tmp_path: Path, choice: str | None) -> None:
    (tmp_path / "old.txt").write_text("old")
    raised: list[str] = []

    async def work(turn: Turn[Settings]) -> None:
        try:
            await EditorWorkspace(turn).remove(str(tmp_path / "old.txt"))
        except PermissionRejected as error:
            raised.append(str(error))

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True) as client:
        client.answer_permission()
        client.choose = choice
        await run_turn(client, tmp_path)
        (asked,) = client.asked

    assert (asked.tool_call.title, asked.tool_call.kind) == ("Remove old.txt", "delete")
    is_allowed = choice == "allow_once"
    assert (tmp_path / "old.txt").exists() is not is_allowed
    assert raised == ([] if is_allowed else ["Remove old.txt: the user did not permit this"])
    assert client.statuses[-1] == ("completed" if is_allowed else "failed")


async def test_a_change_is_shown_before_permission_for_it_is_requested(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("before")

    async def work(turn: Turn[Settings]) -> None:
        workspace = EditorWorkspace(turn, policy=lambda request: "ask" if request.operation == "write" else "allow")
        await workspace.write_bytes(str(tmp_path / "a.txt"), b"after")
        await workspace.write_bytes(str(tmp_path / "a.txt"), b"after that")
        await workspace.write_bytes(str(tmp_path / "b.txt"), b"new")

    async with asyncio.timeout(60), client_for(agent_with(work), tmp_path, validate=True) as client:
        client.answer_permission()
        client.choose = "allow_always"
        await run_turn(client, tmp_path)
        first, second = client.asked  # "always" covers the same file, and no other

    assert first.tool_call.status == "pending"
    assert first.tool_call.content == [v1.Diff(path=str(tmp_path / "a.txt"), old_text="before", new_text="after")]
    assert second.tool_call.content == [v1.Diff(path=str(tmp_path / "b.txt"), new_text="new")]
    assert (tmp_path / "a.txt").read_text() == "after that"


async def test_a_policy_rejects_without_asking_and_sees_paths_without_links(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SECRET=1")
    (tmp_path / "plain.txt").symlink_to(".env")
    seen: list[str | None] = []

    def policy(request: WorkspaceRequest) -> Any:
        seen.append(request.path)
        return "reject" if str(request.path).endswith(".env") else "allow"

    async with asyncio.timeout(60), our_turn(tmp_path) as turn:
        with pytest.raises(PermissionRejected, match=r"Read \.env: rejected by the policy"):
            await EditorWorkspace(turn, policy=policy).read_bytes(str(tmp_path / "plain.txt"))
    assert seen == [str(tmp_path / ".env")]


async def test_a_policy_that_returns_something_else_allows_nothing(tmp_path: Path) -> None:
    def wrong(request: WorkspaceRequest) -> Any:
        return True

    async with asyncio.timeout(60), our_turn(tmp_path) as turn:
        with pytest.raises(TypeError, match="'allow', 'ask' or 'reject', got True"):
            await EditorWorkspace(turn, policy=wrong).write_bytes(str(tmp_path / "a"), b"a")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("limit", ["command_timeout", "request_timeout"])
@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
async def test_every_wait_has_an_end(tmp_path: Path, limit: str, seconds: float) -> None:
    async with asyncio.timeout(60), our_turn(tmp_path) as turn:
        options: dict[str, Any] = {limit: seconds}
        with pytest.raises(ValueError, match="positive number of seconds"):
            EditorWorkspace(turn, **options)
