"""A Ray cluster on loopback: a head with a token of its own, whose workers can be killed.

Ray listens on every address of the machine, whatever its options say. So it runs in a network of its own, which has
loopback only, and so does every program that uses it: start those with `RayProcesses.command`.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from importlib.metadata import distribution
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[3]
MARK = "DUOLOGUE_TEST_CLUSTER"
"""Variable of the processes of a cluster, which those of its users do not have."""
STARTED = "Ray runtime started"
HOST = "127.0.0.2"
"""An address of loopback that Ray keeps; 127.0.0.1 it replaces by one that other machines can reach."""


class RayProcesses:
    """A cluster of one node; its processes end with the `with` block.

    Args:
        python: Interpreter of an environment with Ray.
        slots: Tasks at the same time.

    Attributes:
        address: Address of its Ray Client server.
        environment: Variables for programs that use the cluster: they find the token, Ray and this package.
    """

    def __init__(self, python: str, slots: int) -> None:
        self._network = PrivateNetwork()
        self.python = python
        self._slots = slots
        # Sockets of Ray lie below it, and their paths must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="ray-"))
        self._token = self.folder / "token"
        self._token.write_text(secrets.token_hex(32))
        self._token.chmod(0o600)
        self._port, self._client_port = free_port(), free_port()
        self.address = f"ray://{HOST}:{self._client_port}"
        metadata = self.folder / "metadata"
        metadata.mkdir()
        found = Path(str(distribution("duologue").locate_file("."))).glob("duologue-*.dist-info")
        for each in found:
            (metadata / each.name).symlink_to(each)
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self._token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src", metadata))),
            "TMPDIR": str(self.folder),
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self._network.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, *words: str) -> list[str]:
        """Return the command that runs Python with these arguments in the cluster's environment and network."""
        return [*self._network.prefix, self.python, *words]

    def start(self) -> None:
        """Start the head, which is the only node."""
        options = {
            "--port": self._port,
            "--ray-client-server-port": self._client_port,
            "--num-cpus": self._slots,
            "--node-ip-address": HOST,
            "--include-dashboard": "false",
            "--object-store-memory": 80_000_000,
            "--temp-dir": self.folder / "r",
            "--min-worker-port": 0,
            "--max-worker-port": 0,
            "--dashboard-agent-listen-port": free_port(),
        }
        words = [str(word) for pair in options.items() for word in pair]
        start = ["start", "--head", "--block", "--disable-usage-stats", *words]
        self._head = subprocess.Popen(
            self.command("-m", "ray.scripts.scripts", *start),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**self.environment, MARK: str(self.folder)},
            start_new_session=True,
        )
        assert self._head.stdout is not None
        output: list[str] = []
        for line in self._head.stdout:
            output.append(line)
            if STARTED in line:
                return
        raise RuntimeError(f"Ray did not start: {''.join(output)}")

    def stop(self) -> None:
        """End the head with all its processes."""
        self._head.terminate()
        try:
            self._head.wait(30)
        except subprocess.TimeoutExpired:
            self._head.kill()
            self._head.wait()
        if self._head.stdout is not None:
            self._head.stdout.close()
        for pid in self.processes(""):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def workers(self) -> list[int]:
        """Return the process ids of the workers, those that carry out a task and those that wait for one."""
        return [*self.processes("ray::run_"), *self.processes("ray::IDLE")]

    def processes(self, name: str) -> list[int]:
        """Return the processes of this cluster whose command line begins with a name."""
        found: list[int] = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if int(path.name) == os.getpid():
                    continue
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                is_ours = f"{MARK}={self.folder}\0".encode() in (path / "environ").read_bytes()
                if is_ours and command.startswith(name):
                    found.append(int(path.name))
        return found


class PrivateNetwork:
    """A network that has loopback only, for the programs that are started with its prefix.

    Attributes:
        prefix: Words before a command, which let it run there.

    Raises:
        FileNotFoundError: Bubblewrap or nsenter is not installed.
    """

    def __init__(self) -> None:
        for program in ("bwrap", "nsenter"):
            if shutil.which(program) is None:
                raise FileNotFoundError(f"{program} is needed to keep Ray on loopback")
        reading, writing = os.pipe()
        sandbox = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "--die-with-parent", "--info-fd", str(writing)]
        # `cat` waits for the end of its stdin.
        self._holder = subprocess.Popen([*sandbox, "cat"], stdin=subprocess.PIPE, pass_fds=[writing])
        os.close(writing)
        with os.fdopen(reading) as info:
            pid = json.load(info)["child-pid"]
        namespaces = Path(f"/proc/{pid}/ns")
        self.prefix = ["nsenter", f"--net={namespaces / 'net'}"]
        if (namespaces / "user").readlink() != Path("/proc/self/ns/user").readlink():
            self.prefix += [f"--user={namespaces / 'user'}", "--preserve-credentials"]
        self.prefix.append("--")

    def close(self) -> None:
        """End the process that keeps the network."""
        self._holder.communicate()


def free_port() -> int:
    """Return a port of loopback that is not used now."""
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])
