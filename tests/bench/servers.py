"""Servers under test as child processes: our daemon with a home of its own, llama-server, and xllamacpp's.

Each has `url` and `cpu()`, CPU seconds of its process and all its children so far.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from localdecide.cli import processes

ROOT = Path(__file__).parents[2]
JUDGE = ROOT / "tests" / "reference" / "judge" / "serve.py"
START_SECONDS = 120.0
SERVE = (sys.executable, "-m", "localdecide.cli.main")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Server:
    """A child process that listens on `port` of 127.0.0.1; ended on leaving the `with`."""

    port: int
    child: subprocess.Popen[Any]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cpu(self) -> float:
        return processes.cpu_seconds(self.child.pid)

    def post(self, path: str, body: Any) -> Any:
        """The JSON value of the reply to a POST over a connection kept open. Ends the bench on any error."""
        data = json.dumps(body).encode()
        status, reply = self.send(path, data)
        if status != 200:
            sys.exit(f"{self.url}{path} answered with status {status}: {reply[:500]!r}")
        return json.loads(reply)

    def send(self, path: str, data: bytes, connection: http.client.HTTPConnection | None = None) -> tuple[int, bytes]:
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        own.request("POST", path, data, {"Content-Type": "application/json"})
        response = own.getresponse()
        reply = response.read()
        if connection is None:
            own.close()
        return response.status, reply

    def wait(self, path: str) -> None:
        """Until GET `path` answers 200."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.child.poll() is not None:
                sys.exit(f"{self.child.args!r} ended with exit code {self.child.returncode}")
            with (
                contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as connection,
                contextlib.suppress(OSError, http.client.HTTPException),
            ):
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.1)
        sys.exit(f"{self.child.args!r} is not ready after {START_SECONDS:.0f} s")

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.child.terminate()
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


class Daemon(Server):
    """Ours. models: Modelfile text by name, created before it returns. settings: further LOCALDECIDE_* values."""

    def __init__(self, models: Mapping[str, str], command: Sequence[str] = (*SERVE, "serve"), **settings: str) -> None:
        self.port = free_port()
        self._home = tempfile.TemporaryDirectory(prefix="localdecide-bench-")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCALDECIDE_")}
        folders = {f"XDG_{name}_HOME": f"{self._home.name}/{name.lower()}" for name in ("DATA", "STATE", "CACHE")}
        own = {
            "HOME": self._home.name,
            "LOCALDECIDE_HOST": f"127.0.0.1:{self.port}",
            "LOCALDECIDE_MODELS": f"{self._home.name}/models",
            "LOCALDECIDE_KEEP_ALIVE": "-1",
            "LOCALDECIDE_NUM_THREADS": "1",
            "LOCALDECIDE_LOG_LEVEL": "warning",
            "PYTHONPATH": str(ROOT),
        }
        self.environment = kept | folders | own | settings
        self.started = time.perf_counter()
        self.child = subprocess.Popen(command, env=self.environment, cwd=self._home.name)
        self.wait("/readyz")
        self.ready_seconds = time.perf_counter() - self.started
        for name, modelfile in models.items():
            self.post("/api/create", {"model": name, "modelfile": modelfile, "directory": str(ROOT), "stream": False})

    def load(self, name: str) -> None:
        self.post("/api/generate", {"model": name})

    def __exit__(self, *reason: Any) -> None:
        super().__exit__(*reason)
        self._home.cleanup()


class LlamaServer(Server):
    """llama-server over one GGUF with one thread. arguments: further ones of its own."""

    def __init__(self, binary: Path, model: Path, arguments: Sequence[str]) -> None:
        self.port = free_port()
        command = [str(binary), "-m", str(model), "--port", str(self.port), "-t", "1", "-tb", "1", *arguments]
        # As our daemon has it: threads that spin while they wait are the machine's business, not a server's.
        environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
        quiet = subprocess.DEVNULL
        self.child = subprocess.Popen(command, stdout=quiet, stderr=quiet, env=environment)
        self.wait("/health")

    def complete(self, tokens: Sequence[int]) -> Any:
        """The next token's ten likeliest after a prompt of token ids, with the prompt cache on."""
        body = {"prompt": list(tokens), "n_predict": 1, "n_probs": 10, "cache_prompt": True, "temperature": 0}
        return self.post("/completion", body)


class Upstream(Server):
    """xllamacpp's prebuilt server with decisions at /v1/systemone, as it comes (f16 cache, automatic attention)."""

    def __init__(self, python: Path, model: Path, context: int) -> None:
        settings = {"path": str(model), "context": context, "ubatch": 512, "parallel": 1, "exact": False}
        command = [str(python), str(JUDGE), json.dumps(settings)]
        environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        if not line:
            sys.exit(f"xllamacpp does not load {model}")
        self.port = int(json.loads(line)["address"].rpartition(":")[2].strip("/"))


def build_llama_server(source: Path, folder: Path, jobs: int = 1) -> Path:
    """The llama-server of llama-cpp-python's source package (its .tar.gz, or the folder it unpacks to).

    Built once into `folder`, with the compiler's own best for this CPU, at low priority.
    """
    binary = folder / "build" / "bin" / "llama-server"
    if binary.exists():
        return binary
    if source.is_file():
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
        source = next(folder.glob("llama_cpp_python-*"))
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "LLAMA_CURL": "OFF",
        "LLAMA_OPENSSL": "OFF",
        "LLAMA_BUILD_UI": "OFF",
        "LLAMA_USE_PREBUILT_UI": "OFF",
        "LLAMA_BUILD_TESTS": "OFF",
        "LLAMA_BUILD_EXAMPLES": "OFF",
    }
    low = ["nice", "-n", "15"] if shutil.which("nice") else []
    defined = [f"-D{name}={value}" for name, value in options.items()]
    tree = str(folder / "build")
    subprocess.run([*low, "cmake", "-S", str(source / "vendor" / "llama.cpp"), "-B", tree, *defined], check=True)
    subprocess.run([*low, "cmake", "--build", tree, "--target", "llama-server", "-j", str(jobs)], check=True)
    return binary
