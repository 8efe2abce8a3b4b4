"""A registry of npm packages and an index of Python packages on loopback, with packages that tests make."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


def npm_tarball(name: str, version: str, **fields: Any) -> bytes:
    """Return an npm package with one command, `name`."""
    manifest = {"name": name, "version": version, "bin": {name: "cli.js"}, **fields}
    return tgz({"package/package.json": json.dumps(manifest).encode(), "package/cli.js": program(version)})


def program(version: str) -> bytes:
    """Return a program that says its version."""
    return f"#!/usr/bin/env node\nconsole.log('{version}')\n".encode()


def tgz(files: Mapping[str, bytes]) -> bytes:
    """Return a compressed tar file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


def wheel(name: str, version: str, python: str = ">=3.11") -> bytes:
    """Return a wheel with one console script, `name`, for some versions of Python."""
    module, folder = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        f"{module}/__init__.py": f"def main():\n    print('{version}')\n",
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {python}\n",
        f"{folder}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{folder}/entry_points.txt": f"[console_scripts]\n{name} = {module}:main\n",
    }
    files[f"{folder}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{folder}/RECORD"])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return buffer.getvalue()


class PackageIndex:
    """Serves packages; `env` makes npm and uv use it."""

    def __init__(self) -> None:
        self._pages: dict[str, bytes] = {}
        self._versions: dict[str, dict[str, Any]] = {}
        self._links: dict[str, list[str]] = {}
        pages = self._pages

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._head()

            def do_GET(self) -> None:
                self.wfile.write(self._head())

            def _head(self) -> bytes:
                body = pages.get(self.path.rstrip("/"))
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Type", "text/html" if self.path.startswith("/simple") else "application/json")
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                return body or b""

            def log_message(self, format: str, *_: object) -> None:  # noqa: A002
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def env(self, folder: str) -> dict[str, str]:
        """Return environment variables that make npm and uv use only this, with caches in a folder."""
        return {
            "npm_config_registry": self.url,
            "npm_config_cache": f"{folder}/npm-cache",
            "npm_config_userconfig": f"{folder}/npmrc",
            "UV_DEFAULT_INDEX": f"{self.url}/simple",
            "UV_CACHE_DIR": f"{folder}/uv-cache",
            "UV_NO_CONFIG": "1",
        }

    def add_npm(self, name: str, version: str, **fields: Any) -> None:
        """Publish an npm package."""
        tarball = npm_tarball(name, version, **fields)
        integrity = base64.b64encode(hashlib.sha512(tarball).digest()).decode()
        path = f"/{name}/-/{name}-{version}.tgz"
        self._pages[path] = tarball
        dist = {"tarball": f"{self.url}{path}", "integrity": f"sha512-{integrity}"}
        self._versions.setdefault(name, {})[version] = {
            "name": name, "version": version, "bin": {name: "cli.js"}, **fields, "dist": dist,
        }  # fmt: skip
        packument = {"name": name, "dist-tags": {"latest": version}, "versions": self._versions[name]}
        self._pages[f"/{name}"] = json.dumps(packument).encode()

    def add_wheel(self, name: str, version: str, python: str = ">=3.11") -> None:
        """Publish a Python package."""
        content, file = wheel(name, version, python), f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        self._pages[f"/files/{file}"] = content
        links = self._links.setdefault(name, [])
        links.append(f'<a href="{self.url}/files/{file}#sha256={hashlib.sha256(content).hexdigest()}">{file}</a>')
        self._pages[f"/simple/{name}"] = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()
