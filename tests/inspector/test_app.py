"""The server of the inspector page: who may read, what can be read, and within which bounds."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from duologue.inspector import app as app_module
from duologue.inspector import recording_index
from duologue.inspector.app import InspectorApp
from duologue.inspector.recording_folder import RecordingFolder, open_regular_file
from duologue.transports.server.auth import AccessControl
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import ServerAddress, serve
from duologue.transports.server.tokens import single_token
from tests.inspector.recordings import conversation, stream, update, write

TOKEN = "the-token-of-the-tests"
SECONDS = 60.0


class Client:
    def __init__(self, http: httpx2.AsyncClient, port: int) -> None:
        self.http = http
        self.base = f"http://127.0.0.1:{port}"

    async def get(self, path: str, headers: dict[str, str] | None = None, **query: Any) -> httpx2.Response:
        given = {"Authorization": f"Bearer {TOKEN}"} if headers is None else headers
        return await self.http.get(f"{self.base}{path}", params=query, headers=given)

    async def data(self, path: str, **query: Any) -> Any:
        response = await self.get(path, **query)
        assert response.status_code == 200, response.text
        return response.json()


@asynccontextmanager
async def served(path: Path) -> AsyncGenerator[Client]:
    limits = Limits()
    app = InspectorApp(RecordingFolder(path), AccessControl(single_token(TOKEN), limits), limits)
    async with serve(app, ServerAddress()) as port, httpx2.AsyncClient(timeout=SECONDS) as http:
        yield Client(http, port)


def open_files(folder: Path) -> list[Path]:
    return [link for link in Path("/proc/self/fd").iterdir() if str(folder) in os.path.realpath(link)]


API = [
    f"/api/{name}"
    for name in ("recordings", "rows", "content", "search", "statistics", "conversation", "diff", "unknown")
]


@pytest.mark.parametrize("path", API)
async def test_data_needs_the_token(tmp_path: Path, path: str) -> None:
    write(tmp_path / "run.acp", conversation())
    async with served(tmp_path) as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": f"token={TOKEN}"}):
            answer = await client.get(path, headers, recording="run.acp", start=0, number=1, text="a")
            assert answer.status_code == 401
        in_the_url = await client.get(path, {}, token=TOKEN)
        assert in_the_url.status_code == 401


@pytest.mark.parametrize("path", ["/", *API])
@pytest.mark.parametrize(
    "foreign",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
)
async def test_requests_for_another_host_or_from_another_page_are_rejected(
    tmp_path: Path, path: str, foreign: dict[str, str]
) -> None:
    async with served(tmp_path) as client:
        answer = await client.get(path, {"Authorization": f"Bearer {TOKEN}", **foreign})

    assert answer.status_code == 403


async def test_the_page_has_no_data_and_may_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    write(tmp_path / "secret-name.acp", conversation())
    async with served(tmp_path) as client:
        page = await client.get("/", {})

    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "secret-name" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_nothing_can_be_changed(tmp_path: Path, method: str) -> None:
    async with served(tmp_path) as client:
        for path in ("/", "/api/recordings"):
            answer = await client.http.request(method, client.base + path, headers={"Authorization": f"Bearer {TOKEN}"})
            assert answer.status_code == 405


async def test_recordings_are_listed_newest_first_without_links_and_other_files(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    for number, name in enumerate(["old.acp", "new.acp", "notes.txt"]):
        write(folder / name, conversation())
        os.utime(folder / name, (number, number))
    write(tmp_path / "outside.acp", conversation())
    (folder / "link.acp").symlink_to(tmp_path / "outside.acp")
    (folder / "folder.acp").mkdir()
    os.mkfifo(folder / "pipe.acp")
    async with served(folder) as client:
        found = (await client.data("/api/recordings"))["recordings"]

    assert [each["name"] for each in found] == ["new.acp", "old.acp"]
    assert found[0]["size"] == (folder / "new.acp").stat().st_size


@pytest.mark.parametrize(
    "name",
    [
        "../outside.acp",
        "/etc/passwd",
        "..",
        ".",
        "",
        "link.acp",
        "folder.acp",
        "pipe.acp",
        "notes.txt",
        "run.acp/../../outside.acp",
        "run.acp\0.acp",
        "%2e%2e%2foutside.acp",
        "absent.acp",
    ],
)
async def test_only_regular_files_of_the_directory_can_be_read(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    write(folder / "run.acp", conversation())
    write(folder / "notes.txt", conversation())
    write(tmp_path / "outside.acp", conversation())
    (folder / "link.acp").symlink_to(tmp_path / "outside.acp")
    (folder / "folder.acp").mkdir()
    os.mkfifo(folder / "pipe.acp")
    async with served(folder) as client:
        asked: list[tuple[str, dict[str, Any]]] = [
            ("/api/rows", {"recording": name, "start": 0}),
            ("/api/content", {"recording": name, "number": 1}),
            ("/api/search", {"recording": name, "text": "a"}),
            ("/api/statistics", {"recording": name}),
            ("/api/conversation", {"recording": name, "start": 0}),
            ("/api/diff", {"first": "run.acp", "second": name}),
            ("/api/diff", {"first": name, "second": "run.acp"}),
        ]
        for path, query in asked:
            answer = await client.get(path, **query)
            assert answer.status_code in (404, 422)
            assert "s1" not in answer.text


async def test_a_single_file_is_served_alone_whatever_its_name_is(tmp_path: Path) -> None:
    write(tmp_path / "other.acp", conversation())
    write(tmp_path / "wire.log", conversation())
    async with served(tmp_path / "wire.log") as client:
        found = await client.data("/api/recordings")
        other = await client.get("/api/rows", recording="other.acp", start=0)
        rows = await client.data("/api/rows", recording="wire.log", start=0)

    assert [each["name"] for each in found["recordings"]] == ["wire.log"]
    assert other.status_code == 404
    assert len(rows["rows"]) == 13


async def test_rows_contents_figures_and_search_are_those_of_the_recording(tmp_path: Path) -> None:
    write(tmp_path / "run.acp", stream(2500))
    async with served(tmp_path) as client:
        pages = [await client.data("/api/rows", recording="run.acp", start=start) for start in (0, 1000, 2000)]
        content = await client.data("/api/content", recording="run.acp", number=1235)
        absent = await client.data("/api/content", recording="run.acp", number=2501)
        found = await client.data("/api/search", recording="run.acp", text="CHUNK 12 ")
        figures = await client.data("/api/statistics", recording="run.acp")

    assert [(len(page["rows"]), page["is_end"]) for page in pages] == [(1000, False), (1000, False), (500, True)]
    assert pages[2]["info"]["frames"] == 2500
    assert "chunk 1233 of" in json.loads(content["content"]["text"])["params"]["update"]["content"]["text"]
    assert absent["content"] is None
    assert found == {"numbers": [14], "next": None}
    assert figures["frames"]["notification"] == 2498


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"recording": "run.acp"},
        {"recording": "run.acp", "start": "-1"},
        {"recording": "run.acp", "start": "٣"},
        {"recording": "run.acp", "start": "9" * 20},
        {"recording": "r" * 5000, "start": "0"},
        {"recording": ["run.acp", "run.acp"], "start": "0"},
    ],
)
async def test_a_query_that_is_wrong_is_rejected(tmp_path: Path, query: dict[str, Any]) -> None:
    write(tmp_path / "run.acp", conversation())
    async with served(tmp_path) as client:
        assert (await client.get("/api/rows", **query)).status_code == 400


async def test_a_search_answers_in_parts_that_take_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_index, "SEARCH_SECONDS", 0.0)
    write(tmp_path / "run.acp", conversation())
    async with served(tmp_path) as client:
        await client.data("/api/rows", recording="run.acp", start=0)
        numbers: list[int] = []
        part: dict[str, Any] = {"next": 1}
        requests = 0
        while part["next"] is not None:
            part = await client.data("/api/search", recording="run.acp", text="session/update", first=part["next"])
            numbers += part["numbers"]
            requests += 1

    assert (numbers, requests) == ([6, 7, 10], 13)


async def test_new_frames_arrive_while_the_file_grows(tmp_path: Path) -> None:
    path = write(tmp_path / "run.acp", conversation())
    async with served(tmp_path) as client:
        await client.data("/api/rows", recording="run.acp", start=0)
        waiting = asyncio.create_task(client.data("/api/rows", recording="run.acp", start=13, wait=20))
        await client.data("/api/recordings")
        with path.open("a") as file:
            file.write(json.dumps(update(9.0, "late")) + "\n")
        page = await asyncio.wait_for(waiting, SECONDS)

    assert [row[11] for row in page["rows"]] == ["late"]


async def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "run.acp", conversation())
    async with served(tmp_path) as client:
        before = await client.data("/api/rows", recording="run.acp", start=0)
        write(tmp_path / "new", [update(0.0, "other")])
        (tmp_path / "new").rename(path)
        after = await client.data("/api/rows", recording="run.acp", start=0)
        path.unlink()
        gone = await client.get("/api/rows", recording="run.acp", start=0)

    assert (len(before["rows"]), len(after["rows"]), gone.status_code) == (13, 1, 404)


async def test_only_so_many_requests_wait_and_the_end_of_the_server_ends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "MAX_WAITS", 1)
    write(tmp_path / "run.acp", conversation())
    limits = Limits()
    app = InspectorApp(RecordingFolder(tmp_path), AccessControl(single_token(TOKEN), limits), limits)
    async with serve(app, ServerAddress()) as port, httpx2.AsyncClient(timeout=SECONDS) as http:
        client = Client(http, port)
        ask: dict[str, Any] = {"recording": "run.acp", "start": 13, "wait": 20}
        first = asyncio.create_task(client.data("/api/rows", **ask))
        second = asyncio.create_task(client.get("/api/rows", **ask))
        done, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED, timeout=SECONDS)
        await app.drain(0.0)
        answers = await asyncio.wait_for(asyncio.gather(first, second, return_exceptions=True), SECONDS)

    assert len(done) == 1, "one waits, the other is rejected at once"
    assert any("503" in str(each) or "too many requests" in str(each) for each in answers)


async def test_few_recordings_are_open_at_the_same_time(tmp_path: Path) -> None:
    for number in range(8):
        write(tmp_path / f"{number}.acp", [update(0.0, str(number))])
    async with served(tmp_path) as client:
        for _ in range(2):
            for number in range(8):
                page = await client.data("/api/rows", recording=f"{number}.acp", start=0)
                assert page["rows"][0][11] == str(number)
        opened = open_files(tmp_path)

    assert len(opened) == 2 * app_module.MAX_OPEN


async def test_a_file_that_is_no_recording_is_named_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "run.acp").write_text("hello\n")
    async with served(tmp_path) as client:
        answer = await client.get("/api/rows", recording="run.acp", start=0)

    assert answer.status_code == 422
    assert "is not a recording" in answer.text


async def test_the_server_has_no_websocket(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        answer = await client.get("/", {**upgrade, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})

    assert answer.status_code == 404


def test_a_directory_or_pipe_is_not_opened_as_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(OSError, match="is not a regular file"):
            open_regular_file(str(path), os.O_RDONLY)


async def test_two_recordings_are_compared_by_meaning(tmp_path: Path) -> None:
    lines = conversation()
    write(tmp_path / "a.acp", lines)
    changed = [*lines[:5], update(0.9, "I see "), *lines[6:12], update(1.6, "more"), lines[12]]
    write(tmp_path / "b.acp", changed)
    async with served(tmp_path) as client:
        diff = await client.data("/api/diff", first="a.acp", second="b.acp")
        same = await client.data("/api/diff", first="a.acp", second="a.acp")

    kinds = [row["kind"] for row in diff["rows"]]
    assert (kinds[0], diff["counts"]["changed"], diff["counts"]["only_b"]) == ("same", 1, 1)
    row = diff["rows"][kinds.index("changed")]
    assert (row["name"], row["paths"]) == (
        "agent_message_chunk", [["$.params.update.content.text", '"I look at the test."', '"I see the test."']],
    )  # fmt: skip
    assert diff["rows"][kinds.index("only_b")]["paths"][0][1] is None
    assert [row["kind"] for row in same["rows"]] == ["same"]
    assert not same["is_cut"]


async def test_the_conversation_is_that_of_the_recording(tmp_path: Path) -> None:
    path = write(tmp_path / "run.acp", conversation())
    async with served(tmp_path) as client:
        await client.data("/api/rows", recording="run.acp", start=0)
        items = (await client.data("/api/conversation", recording="run.acp", start=0))["items"]
        with path.open("a") as file:
            file.write(json.dumps(update(9.0, "late")) + "\n")
        await client.data("/api/rows", recording="run.acp", start=13)
        late = (await client.data("/api/conversation", recording="run.acp", start=len(items)))["items"]

    assert [item["text"] for item in items if item["kind"] in ("prompt", "message")] == [
        "fix the test",
        "I look at the test.",
    ]
    assert [item["text"] for item in late] == ["late"]
