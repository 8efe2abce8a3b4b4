"""Agents to install without a network: archives, npm packages and wheels of servers on loopback."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from duologue.registry.index import Kind, RegistryEntry, platform_name
from duologue.registry.install_recipe import InstallProgress, InstallSource
from duologue.registry.installer import AddRequest
from tests.registry.https_server import HttpsServer
from tests.registry.package_index import PackageIndex, program, tgz


class Notices(InstallProgress):
    """Collects the notices of an installation."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


class Shop:
    """A registry with the agent `tiny`, in versions 1.0.0 and 2.0.0, as archive, npm package and wheel."""

    def __init__(self, folder: Path, server: HttpsServer, index: PackageIndex) -> None:
        self.folder, self.server = folder, server
        self.lock = folder / "config" / "duologue" / "agents.lock"
        self.agents = folder / "data" / "duologue" / "agents"
        self.notices = Notices()
        self.source = InstallSource(progress=self.notices)
        self.packages = index
        for version in ("1.0.0", "2.0.0"):
            server.add(f"/tiny-{version}.tar.gz", self.archive(version))
            index.add_npm("tiny", version)
            index.add_wheel("tiny", version)

    def archive(self, version: str) -> bytes:
        return tgz({"bin/tiny": program(version), "README": b"x" * 3_000_000})

    def entry(self, version: str = "1.0.0", sha256: str | None = None) -> RegistryEntry:
        binary = {
            "archive": f"{self.server.url}/tiny-{version}.tar.gz",
            "sha256": sha256 or hashlib.sha256(self.archive(version)).hexdigest(),
            "cmd": "./bin/tiny",
        }
        distribution = {
            "binary": {platform_name(): binary},
            "npx": {"package": f"tiny@{version}", "args": ["--acp"]},
            "uvx": {"package": f"tiny=={version}"},
        }
        entry = {"id": "tiny", "name": "Tiny", "version": version, "description": "x", "distribution": distribution}
        return msgspec.convert(entry, RegistryEntry)

    def request(self, known: str = "1.0.0", via: Kind = "binary", version: str | None = None) -> AddRequest:
        """Ask for the agent of a registry that has the version `known`."""
        return AddRequest(entry=self.entry(known), registry="tests", via=via, version=version)

    def index_file(self, version: str) -> Path:
        path = self.folder / f"registry-{version}.json"
        path.write_bytes(msgspec.json.encode({"version": "1.0.0", "agents": [self.entry(version)]}))
        return path

    def leftovers(self) -> list[str]:
        return [path.name for path in self.agents.iterdir() if path.name.startswith(".partial")]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    (tmp_path / "tls").mkdir()
    with HttpsServer(tmp_path / "tls") as server, PackageIndex() as index:
        for name, value in {
            **index.env(str(tmp_path)),
            "SSL_CERT_FILE": str(server.authority),
            "XDG_DATA_HOME": str(tmp_path / "data"),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }.items():
            monkeypatch.setenv(name, value)
        for name in list(os.environ):
            if name.lower().endswith("_proxy"):
                monkeypatch.delenv(name)
        yield Shop(tmp_path, server, index)


@pytest.fixture(params=["binary", "npx", "uvx"])
def kind(request: pytest.FixtureRequest) -> Kind:
    if request.param == "npx" and shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    chosen: Kind = request.param
    return chosen
