"""Registries in order: files, URLs with a saved index, offline and mirrors, and hostile servers."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duologue.registry import sources
from duologue.registry.download import DownloadLimits
from duologue.registry.index import RegistryError, read_index
from duologue.registry.install_recipe import InstallProgress, InstallSource
from duologue.registry.sources import EXAMPLE, Registries
from tests.registry.https_server import HttpsServer, response

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUOLOGUE_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DUOLOGUE_REGISTRY", raising=False)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpsServer]:
    with HttpsServer(tmp_path) as running:
        monkeypatch.setenv("SSL_CERT_FILE", str(running.authority))
        yield running


def index(*ids: str, version: str = "1.0.0") -> bytes:
    agents = [
        {"id": each, "name": each, "version": version, "description": each, "distribution": {"npx": {"package": each}}}
        for each in ids
    ]
    return json.dumps({"version": "1.0.0", "agents": agents}).encode()


def file(path: Path, *ids: str, **changes: Any) -> str:
    path.write_bytes(index(*ids, **changes))
    return str(path)


def ids(registries: Registries) -> list[str]:
    return [found.entry.id for found in registries.entries()[0]]


def test_the_first_registry_that_has_an_id_decides(tmp_path: Path) -> None:
    first, second = file(tmp_path / "1", "a", version="1.0.0"), file(tmp_path / "2", "a", "b", version="2.0.0")
    registries = Registries([first, second])

    assert (registries.find("a").registry, registries.find("a").entry.version) == (first, "1.0.0")
    assert registries.find("b").registry == second
    assert ids(registries) == ["a", "b"]


def test_a_registry_that_cannot_be_read_is_not_replaced_by_a_later_one(tmp_path: Path) -> None:
    missing, second = str(tmp_path / "none"), file(tmp_path / "2", "a")

    with pytest.raises(RegistryError, match="cannot read the registry"):
        Registries([missing, second]).find("a")
    assert Registries([second, missing]).find("a").registry == second
    found, notes = Registries([missing, second]).entries()
    assert [each.entry.id for each in found] == ["a"]
    assert "cannot read the registry" in notes[0]
    with pytest.raises(RegistryError, match="cannot read the registry"):
        Registries([missing]).entries()


def test_an_unknown_id_gets_a_suggestion_and_the_reason_of_an_invalid_entry(tmp_path: Path) -> None:
    path = tmp_path / "1"
    content = json.loads(index("gemini", "broken"))
    content["agents"][1]["version"] = "new"
    path.write_text(json.dumps(content))

    with pytest.raises(RegistryError, match="did you mean 'gemini'"):
        Registries([str(path)]).find("gemni")
    with pytest.raises(RegistryError, match="its entry is not valid: entry 1"):
        Registries([str(path)]).find("broken")
    assert "entry 1 ('broken')" in Registries([str(path)]).entries()[1][0]


def test_registries_come_from_arguments_then_the_variable_then_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, variable, configured = (file(tmp_path / name, name) for name in ("named", "variable", "configured"))

    assert "gemini" in ids(Registries(is_offline=True))
    (tmp_path / "config.toml").write_text(f"registries = {json.dumps([configured])}\n")
    assert ids(Registries()) == ["configured"]
    monkeypatch.setenv("DUOLOGUE_REGISTRY", f"{variable} {configured}")
    assert ids(Registries()) == ["variable", "configured"]
    assert ids(Registries([named, named])) == ["named"]


def test_the_public_registry_is_used_by_default_and_the_examples_until_it_was_reached(
    server: HttpsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.add("/registry.json", index("public-agent"))
    monkeypatch.setattr(sources, "PUBLIC", f"{server.url}/missing.json")
    found, notes = Registries().entries()
    assert {each.registry for each in found} == {"the bundled examples"}
    assert "404" in notes[0]
    assert "the public registry was never reached from here: these are the examples" in notes[0]
    assert "gemini" in Registries().saved_ids()

    monkeypatch.setattr(sources, "PUBLIC", url)
    assert ids(Registries()) == ["public-agent"]
    server.add_raw("/registry.json", lambda peer: peer.sendall(response(b"", {}, "500 Broken")))
    found, notes = Registries().entries()
    assert [each.entry.id for each in found] == ["public-agent"]
    assert "is used" in notes[0]
    assert Registries().saved_ids() == {"public-agent"}


@pytest.mark.parametrize("text", ["registries = 1\n", "registries = [1]\n", "[x", "colours = 1\n"])
def test_a_configuration_that_is_not_valid_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(text)

    with pytest.raises(RegistryError, match=r"config\.toml"):
        Registries()


def test_a_mirror_is_the_only_registry(tmp_path: Path) -> None:
    file(tmp_path / "registry.json", "mirrored")

    assert ids(Registries(["https://elsewhere.example/"], mirror=tmp_path)) == ["mirrored"]


def test_an_index_is_saved_and_asked_for_with_its_etag(server: HttpsServer) -> None:
    url = server.add("/registry.json", index("a"), {"ETag": '"1"'})
    assert ids(Registries([url])) == ["a"]
    server.add_raw("/registry.json", lambda peer: peer.sendall(response(b"", {}, "304 Not Modified")))

    registries = Registries([url])
    assert ids(registries) == ["a"]
    assert registries.entries()[1] == []
    assert 'If-None-Match: "1"' in server.requests[1]
    assert Registries([url]).saved_ids() == {"a"}
    assert Registries([url], is_offline=True).find("a").registry == url
    assert len(server.requests) == 2


def test_a_password_is_neither_shown_nor_part_of_a_file_name(server: HttpsServer, tmp_path: Path) -> None:
    url = server.add("/registry.json", index("a")).replace("https://", "https://me:secret@")

    assert Registries([url]).find("a").registry == f"{server.url}/registry.json"
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and b"secret" in path.read_bytes()] == []


@pytest.mark.parametrize(
    "bad",
    [
        response(b"", {}, "500 Internal Server Error"),
        response(b'{"version": "1.0.0"', {"Content-Length": "400"}),
        response(b"not JSON", {}),
        response(b"", {"Content-Length": str(1 << 40)}),
        response(b"", {"Location": "http://127.0.0.1:1/"}, "302 Found"),
        b"",
    ],
    ids=["500", "truncated", "no index", "too large", "redirect to http", "nothing"],
)
def test_a_server_that_fails_leaves_the_saved_index_usable(bad: bytes, server: HttpsServer, tmp_path: Path) -> None:
    url = server.add_raw("/registry.json", lambda peer: peer.sendall(bad))
    with pytest.raises(RegistryError):
        Registries([url]).find("a")
    assert Registries([url]).saved_ids() == set()
    server.add("/registry.json", index("a"))
    Registries([url]).find("a")
    server.add_raw("/registry.json", lambda peer: peer.sendall(bad))

    found = Registries([url]).find("a")

    assert f"the index of {url} from" in found.note
    assert sorted(path.suffix for path in (tmp_path / "cache/duologue/registries").iterdir()) == [".about", ".json"]


def test_a_server_that_sends_nothing_is_abandoned(server: HttpsServer) -> None:
    def wait(peer: ssl.SSLSocket) -> None:
        server.ended.wait(60)

    url = server.add_raw("/registry.json", wait)

    with pytest.raises(RegistryError, match=r"sent nothing|was not received"):
        Registries([url], limits=DownloadLimits(silence=0.3, total=1.0)).find("a")
    server.ended.set()


def test_without_a_saved_index_offline_is_an_error() -> None:
    with pytest.raises(RegistryError, match="run once without it"):
        Registries(["https://registry.example/"], is_offline=True).find("a")


@pytest.mark.parametrize("suffix", [".json", ".about"])
def test_a_damaged_saved_index_is_not_used(suffix: str, server: HttpsServer, tmp_path: Path) -> None:
    url = server.add("/registry.json", index("a"), {"ETag": '"1"'})
    Registries([url]).find("a")
    saved = next((tmp_path / "cache/duologue/registries").glob(f"*{suffix}"))
    saved.write_bytes(saved.read_bytes()[:-3])

    assert Registries([url]).saved_ids() == set()
    assert ids(Registries([url])) == ["a"]
    assert "If-None-Match" not in server.requests[1]


def test_plain_http_is_refused() -> None:
    with pytest.raises(RegistryError, match="only https"):
        Registries(["http://registry.example/"]).find("a")


@pytest.mark.parametrize("path", [EXAMPLE, ROOT / "examples" / "registry.json"], ids=["bundled", "example"])
def test_our_own_indexes_have_no_invalid_entry(path: Path) -> None:
    read = read_index(path.read_bytes(), str(path))

    assert read.problems == []
    assert read.agents
    assert sources.VARIABLE == "DUOLOGUE_REGISTRY"


def test_the_error_about_a_missing_file_names_a_mirror_only_if_there_is_one(tmp_path: Path) -> None:
    source = InstallSource(progress=InstallProgress(), is_offline=True)

    assert "--offline was given" in str(source.missing("x"))
    assert f"x is not in the mirror {tmp_path}" in str(
        InstallSource(progress=InstallProgress(), mirror=tmp_path).missing("x")
    )
