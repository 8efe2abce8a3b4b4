"""Agents are installed whole, as locked, and the old version stays usable whatever happens."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
from typing import Any

import msgspec
import pytest

from duologue.registry import installation
from duologue.registry.file_digest import describe_tree
from duologue.registry.index import Kind, RegistryError
from duologue.registry.install_prefix import open_prefix
from duologue.registry.install_recipe import InstallProgress, InstallSource
from duologue.registry.lock_file import LockedAgent, edit_lock, installation_directory, read_lock
from duologue.registry.npm_installer import check_lock
from duologue.registry.python_installer import OTHER_PYTHONS, check_requirements, find_interpreter
from tests.registry.conftest import Shop
from tests.registry.package_index import tgz, wheel

DUOLOGUE = [sys.executable, "-m", "duologue", "agents"]


def locked(shop: Shop) -> LockedAgent:
    return read_lock(shop.lock).agents["tiny"]


def test_an_agent_is_installed_locked_and_verified(shop: Shop, kind: Kind) -> None:
    agent = installation.add(shop.request(via=kind), shop.lock, shop.source)

    assert locked(shop) == agent
    assert (agent.version, agent.kind) == ("1.0.0", kind)
    assert installation.verify(agent) == []
    assert os.access(installation_directory(agent) / agent.program, os.X_OK)
    assert shop.leftovers() == []
    assert "127.0.0.1" not in shop.lock.read_text() or kind == "binary"


def test_an_installed_program_starts(shop: Shop) -> None:
    agent = installation.add(shop.request(via="uvx"), shop.lock, shop.source)

    started = subprocess.run(
        [installation_directory(agent) / agent.program], capture_output=True, text=True, check=True
    )

    assert started.stdout == "1.0.0\n"
    assert installation.verify(agent) == []


def test_two_installs_of_one_lock_have_the_same_files(shop: Shop, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = installation.add(shop.request(via=kind), shop.lock, shop.source)
    first = describe_tree(installation_directory(agent))

    monkeypatch.setenv("XDG_DATA_HOME", str(shop.folder / "elsewhere"))
    assert installation.install([agent], shop.lock, shop.source) == [agent]
    again = installation_directory(agent)

    assert describe_tree(again) == first
    assert installation.verify(agent) == []
    assert installation.install([agent], shop.lock, shop.source) == []


def test_another_version_than_the_registrys_can_be_added(shop: Shop, kind: Kind) -> None:
    agent = installation.add(shop.request("1.0.0", kind, version="2.0.0"), shop.lock, shop.source)

    assert agent.version == "2.0.0"
    assert "2.0.0" in (agent.package or agent.url or "")


def test_a_version_that_does_not_exist_is_refused(shop: Shop, kind: Kind) -> None:
    with pytest.raises(RegistryError, match=r"9\.9\.9|404"):
        installation.add(shop.request("1.0.0", kind, version="9.9.9"), shop.lock, shop.source)

    assert read_lock(shop.lock).agents == {}
    assert shop.leftovers() == []


def test_another_version_of_an_archive_whose_url_has_none_is_refused(shop: Shop) -> None:
    request = shop.request()
    entry = msgspec.to_builtins(request.entry)
    next(iter(entry["distribution"]["binary"].values()))["archive"] = f"{shop.server.url}/latest.tar.gz"
    request = msgspec.structs.replace(request, entry=msgspec.convert(entry, type(request.entry)), version="2.0.0")

    with pytest.raises(RegistryError, match=r"does not contain the version.* of version 2\.0\.0 is unknown"):
        installation.add(request, shop.lock, shop.source)


def test_an_update_replaces_a_version_and_a_pin_prevents_it(shop: Shop) -> None:
    old = installation.add(shop.request(), shop.lock, shop.source)
    registry = ["--registry", str(shop.index_file("2.0.0"))]

    assert "can be updated to 2.0.0" in run(["update", "--check", *registry], code=1)
    assert locked(shop) == old
    run(["pin", "tiny"])
    run(["update", "--check", *registry])
    assert "stays at 1.0.0, because it is pinned" in run(["update", *registry])
    run(["pin", "tiny", "--undo"])
    assert "from 1.0.0 to 2.0.0" in run(["update", *registry])
    run(["update", "--check", *registry])
    assert locked(shop).version == "2.0.0"
    assert not installation_directory(old).exists()
    run(["remove", "tiny"])
    assert read_lock(shop.lock).agents == {}
    assert [path for path in shop.agents.iterdir() if path.is_dir()] == []


def test_verify_names_what_changed(shop: Shop, kind: Kind) -> None:
    agent = installation.add(shop.request(via=kind), shop.lock, shop.source)
    directory = installation_directory(agent)
    (directory / agent.program).write_text("#!/bin/sh\necho changed\n")
    (directory / "added").write_text("x")

    problems = "\n".join(installation.verify(agent))

    assert f"changed program: {agent.program}" in problems
    assert f"changed: {agent.program}" in problems
    assert "added: added" in problems
    failed = subprocess.run([*DUOLOGUE, "verify"], capture_output=True, text=True, check=False)
    assert (failed.returncode, "differs from the lock" in failed.stdout) == (1, True)
    installation.install([agent], shop.lock, shop.source)
    assert installation.verify(agent) == []


def test_a_mirror_installs_without_a_network(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    mirror = shop.folder / "mirror"
    kinds: tuple[Kind, ...] = ("binary", "npx")
    for via in kinds:
        agent = installation.add(shop.request(via=via), shop.lock, shop.source)
        installation.mirror([agent], mirror, shop.source)
        monkeypatch.setenv("XDG_DATA_HOME", str(shop.folder / f"offline-{via}"))
        monkeypatch.setenv("npm_config_cache", str(shop.folder / f"offline-{via}-cache"))
        (shop.folder / "tls" / "ca.pem").rename(shop.folder / "ca.away")
        offline = InstallSource(progress=shop.notices, mirror=mirror, is_offline=True)
        again = installation.add_from_mirror("tiny", "1.0.0", shop.folder / "other.lock", offline)
        (shop.folder / "ca.away").rename(shop.folder / "tls" / "ca.pem")
        assert again == agent
        assert installation.verify(again) == []
        with pytest.raises(RegistryError, match=r"does not have tiny@3\.0\.0; it has tiny@1\.0\.0"):
            installation.add_from_mirror("tiny", "3.0.0", shop.lock, offline)


def test_wheels_of_a_mirror_are_installed_without_a_network(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = installation.add(shop.request(via="uvx"), shop.lock, shop.source)
    mirror = shop.folder / "mirror" / "wheels"
    mirror.mkdir(parents=True)
    (mirror / "tiny-1.0.0-py3-none-any.whl").write_bytes(wheel("tiny", "1.0.0"))
    for name in ("UV_DEFAULT_INDEX", "UV_CACHE_DIR"):
        monkeypatch.setenv(name, str(shop.folder / "nothing"))
    monkeypatch.setenv("XDG_DATA_HOME", str(shop.folder / "offline"))

    offline = InstallSource(progress=shop.notices, mirror=mirror.parent, is_offline=True)

    assert installation.install([agent], shop.lock, offline) == [agent]
    assert installation.verify(agent) == []


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"archive_sha256": "0" * 64}, "has the SHA-256"),
        ({"tree_sha256": "0" * 64}, "nothing was installed"),
        ({"platform": "plan9-mips"}, "is locked for plan9-mips, and this is"),
        ({"programs": {"bin/tiny": "0" * 64}}, "differs from the lock; nothing was installed"),
        ({"program": "bin/other", "programs": {"bin/other": "0" * 64}}, "is not a file of the installation"),
        ({"url": "https://127.0.0.1:1/tiny.tar.gz"}, "cannot be downloaded"),
        ({"url": "https://127.0.0.1:1/tiny.dmg"}, "cannot be downloaded"),
    ],
)
def test_a_lock_that_does_not_fit_installs_nothing(shop: Shop, change: dict[str, Any], match: str) -> None:
    agent = installation.add(shop.request(), shop.lock, shop.source)
    if "program" not in change and "programs" in change:
        change["programs"] = {agent.program: "0" * 64}
    other = msgspec.structs.replace(agent, **change)
    shutil.rmtree(installation_directory(agent))

    with pytest.raises(RegistryError, match=match):
        installation.install([other], shop.lock, shop.source)

    assert not installation_directory(other).exists()
    assert shop.leftovers() == []


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://evil.example/simple",
        "-e git+https://evil.example/x",
        "tiny @ https://evil.example/tiny.whl",
        "./tiny",
        "tiny>=1.0",
        "tiny==1.0",
        "    --hash=md5:00",
    ],
)
def test_requirements_of_a_hostile_lock_are_refused(line: str) -> None:
    with pytest.raises(RegistryError, match="only exact versions with hashes"):
        check_requirements(f"{line}\n")


@pytest.mark.parametrize(
    "packages",
    [
        None,
        {},
        {"": {}, "../x": {"integrity": "sha512-x"}},
        {"": {}, "node_modules/../../x": {"integrity": "sha512-x"}},
        {"": {}, "node_modules/x": {}},
        {"": {}, "node_modules/x": {"link": True}},
        {"": {}, "node_modules/x": {"integrity": "sha512-x", "resolved": "git+ssh://evil.example/x"}},
        {"": {}, "node_modules/x": "x"},
    ],
)
def test_package_locks_that_are_not_only_registry_packages_are_refused(packages: Any) -> None:
    with pytest.raises(RegistryError):
        check_lock({"packages": packages})


def test_an_archive_with_another_hash_leaves_the_old_version(shop: Shop) -> None:
    old = installation.add(shop.request(), shop.lock, shop.source)
    entry = shop.entry("2.0.0", sha256="0" * 64)

    with pytest.raises(RegistryError, match="has the SHA-256"):
        installation.add(msgspec.structs.replace(shop.request(), entry=entry), shop.lock, shop.source)

    assert locked(shop) == old
    assert installation.verify(old) == []
    assert shop.leftovers() == []


def test_an_agent_without_a_program_for_this_platform_is_refused(shop: Shop) -> None:
    entry = msgspec.to_builtins(shop.entry())
    entry["distribution"] = {"binary": {"plan9-mips": next(iter(entry["distribution"]["binary"].values()))}}
    request = msgspec.structs.replace(shop.request(), entry=msgspec.convert(entry, type(shop.entry())), via=None)

    with pytest.raises(RegistryError, match=r"cannot be installed on this platform.*programs for plan9-mips"):
        installation.add(request, shop.lock, shop.source)


def test_an_archive_without_checksum_is_locked_and_said(shop: Shop) -> None:
    entry = msgspec.to_builtins(shop.entry())
    next(iter(entry["distribution"]["binary"].values())).pop("sha256")
    request = msgspec.structs.replace(shop.request(), entry=msgspec.convert(entry, type(shop.entry())))

    agent = installation.add(request, shop.lock, shop.source)

    assert agent.archive_sha256 == hashlib.sha256(shop.archive("1.0.0")).hexdigest()
    assert "the registry has no checksum of this archive" in shop.notices.texts[0]


def test_an_agent_gets_an_installed_python_that_it_supports(shop: Shop) -> None:
    minor = sys.version_info.minor
    newer = [python for python in OTHER_PYTHONS if int(python.partition(".")[2]) > minor]
    others = {python: find_interpreter(python, shop.folder) for python in newer}
    if not any(others.values()):
        pytest.skip("there is no newer Python here")
    shop.packages.add_wheel("tiny", "3.0.0", f">=3.{minor + 1}")

    agent = installation.add(shop.request("3.0.0", "uvx"), shop.lock, shop.source)

    assert agent.python is not None
    assert shop.notices.texts == [
        f"tiny==3.0.0 cannot use Python 3.{minor}; it is installed with {others[agent.python]}"
    ]
    command = [f"{installation_directory(agent)}/bin/python", "-c", "import sys; print(*sys.version_info[:2])"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert ".".join(version) == agent.python
    assert installation.verify(agent) == []


def test_an_agent_for_another_python_says_which_it_needs(shop: Shop) -> None:
    shop.packages.add_wheel("tiny", "3.0.0", ">=3.99")

    with pytest.raises(RegistryError, match=r"tiny==3\.0\.0 needs Python >=3\.99, and there is only 3\.\d.* install a"):
        installation.add(shop.request("3.0.0", "uvx"), shop.lock, shop.source)

    assert shop.leftovers() == []


def test_install_scripts_run_only_if_they_are_allowed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    shop.packages.add_npm("tiny", "3.0.0", scripts={"install": "echo ran > made-by-script"}, hasInstallScript=True)
    request = shop.request("3.0.0", "npx")

    careful = installation.add(request, shop.lock, shop.source)
    made = "node_modules/tiny/made-by-script"
    assert not (installation_directory(careful) / made).exists()
    assert ["install scripts of tiny are not run" in text for text in shop.notices.texts] == [True]
    assert careful.allow_scripts is False
    assert installation.verify(careful) == []

    shop.notices.texts.clear()
    registry = str(shop.index_file("3.0.0"))
    output = run(["add", "tiny", "--via", "npx", "--allow-scripts", "--registry", registry])
    allowed = locked(shop)
    assert "running the install scripts of the agent's packages, as allowed with --allow-scripts" in output
    assert (installation_directory(allowed) / made).read_text() == "ran\n"
    assert allowed.allow_scripts is True
    assert allowed.install_digest() != careful.install_digest()
    assert run(["verify"]) == "tiny 3.0.0 is as locked\n"

    monkeypatch.setenv("XDG_DATA_HOME", str(shop.folder / "elsewhere"))
    assert "as allowed with --allow-scripts" in run(["install"])
    assert (installation_directory(allowed) / made).exists()
    (installation_directory(allowed) / made).write_text("other")
    assert installation.verify(allowed) == [f"changed: {made}"]


def test_an_agent_that_is_added_is_started_only_with_probe(shop: Shop) -> None:
    agent = tgz({"bin/tiny": f"#!/bin/sh\nexec {sys.executable} -P -m duologue agent\n".encode()})
    shop.server.add("/tiny-1.0.0.tar.gz", agent)
    entry = msgspec.to_builtins(shop.entry(sha256=hashlib.sha256(agent).hexdigest()))
    index = shop.folder / "registry.json"
    index.write_bytes(msgspec.json.encode({"version": "1.0.0", "agents": [entry]}))
    command = ["add", "tiny", "--via", "binary", "--registry", str(index)]

    assert "probe" not in run(command)
    assert locked(shop).probe is None
    output = run([*command, "--probe"])
    assert "starting tiny to probe it, as asked with --probe" in output
    assert "session opened" in output
    probed = locked(shop).probe
    assert probed is not None
    assert (probed.session, probed.protocol_versions) == ("opened", [1])
    assert "tiny 1.0.0: unchanged" in run(["probe", "tiny"])


def test_a_second_installer_waits_and_says_so(shop: Shop) -> None:
    with open_prefix(InstallProgress()):
        registry = str(shop.index_file("1.0.0"))
        second = subprocess.Popen(
            [*DUOLOGUE, "add", "tiny", "--registry", registry],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert second.stderr is not None
        line = second.stderr.readline()
        assert f"waiting for another duologue (process {os.getpid()}) that installs agents" in line
        assert second.poll() is None
    second.communicate(timeout=120)

    assert second.returncode == 0
    assert installation.verify(locked(shop)) == []


def test_a_wait_for_another_installer_has_an_end(shop: Shop) -> None:
    too_long = pytest.raises(RegistryError, match=r"still installs agents after 0\.3 s")
    with open_prefix(InstallProgress()), too_long, open_prefix(shop.notices, 0.3):
        pass


def test_ctrl_c_leaves_the_old_version_and_nothing_else(shop: Shop) -> None:
    old = installation.add(shop.request(), shop.lock, shop.source)
    started = stalled_download(shop)
    process = subprocess.Popen(
        [*DUOLOGUE, "add", "tiny", "--registry", str(shop.index_file("2.0.0")), "--via", "binary"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert started.wait(120)
    process.send_signal(signal.SIGINT)

    assert process.wait(120) == 130
    shop.server.ended.set()
    assert locked(shop) == old
    assert installation.verify(old) == []
    assert shop.leftovers() == []


def stalled_download(shop: Shop) -> threading.Event:
    """Let the archive of version 2 never arrive; return an event that is set when it is asked for."""
    asked = threading.Event()

    def endless(peer: Any) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nx")
        asked.set()
        shop.server.ended.wait(120)

    shop.server.add_raw("/tiny-2.0.0.tar.gz", endless)
    return asked


def test_a_full_disk_leaves_the_old_version_and_nothing_else(shop: Shop) -> None:
    old = installation.add(shop.request(), shop.lock, shop.source)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    failed = subprocess.run(
        [*DUOLOGUE, "add", "tiny", "--registry", str(shop.index_file("2.0.0")), "--via", "binary"],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )

    assert failed.returncode == 1
    assert "tiny could not be installed" in failed.stderr
    assert "free some space and try again. What was installed before is unchanged." in failed.stderr
    assert locked(shop) == old
    assert installation.verify(old) == []
    assert shop.leftovers() == []


@pytest.mark.timeout(14400)
def test_a_kill_at_any_moment_leaves_a_usable_version(
    shop: Shop, kind: Kind, chaos_factor: int, record_property: Any
) -> None:
    count = 6 * chaos_factor
    record_property("count", count)
    installation.add(shop.request(via=kind), shop.lock, shop.source)
    files = [str(shop.index_file(version)) for version in ("2.0.0", "1.0.0")]
    chance = random.Random(seed := random.randrange(2**32))
    print("seed", seed)
    for number in range(count):
        command = [*DUOLOGUE, "add", "tiny", "--via", kind, "--registry", files[number % 2]]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(chance.uniform(0.1, 1.5))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert installation.verify(locked(shop)) == []

    agent = installation.add(shop.request("2.0.0", kind), shop.lock, shop.source)
    assert installation.verify(agent) == []


def test_agents_of_another_lock_are_no_garbage(shop: Shop) -> None:
    project = shop.folder / "project.lock"
    theirs = installation.add(shop.request("2.0.0"), project, shop.source)
    installation.add(shop.request("1.0.0"), shop.lock, shop.source)
    assert installation.verify(theirs) == []

    with edit_lock(project) as edit:
        edit.remove("tiny")
    with open_prefix(shop.notices) as prefix:
        prefix.remove_garbage()
    assert not installation_directory(theirs).exists()
    assert installation.verify(locked(shop)) == []


def test_files_of_a_running_agent_stay(shop: Shop) -> None:
    old = installation.add(shop.request("1.0.0", "uvx"), shop.lock, shop.source)
    module = next(installation_directory(old).glob("lib/python*/site-packages/tiny/__init__.py"))
    wait = [str(installation_directory(old) / "bin" / "python"), "-c", "import sys; sys.stdin.read()"]
    running = subprocess.Popen(wait, stdin=subprocess.PIPE)
    installation.add(shop.request("2.0.0", "uvx"), shop.lock, shop.source)

    assert module.exists()
    running.communicate()
    installation.add(shop.request("2.0.0", "uvx"), shop.lock, shop.source)
    assert not module.exists()


def run(words: list[str], code: int = 0) -> str:
    done = subprocess.run([*DUOLOGUE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr
