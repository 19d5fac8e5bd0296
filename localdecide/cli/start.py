"""Starting a daemon in the background and waiting until it is ready.

The daemon's output goes to `paths.logs()/server.log`, its process id to `paths.run()/server-PORT.pid`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from localdecide import paths
from localdecide.cli.client import Client, DaemonError, Interrupted, Unreachable
from localdecide.cli.output import Output

READY_SECONDS = 60.0
LOG_BYTES = 10_000_000
TAIL_LINES = 15


class StartFailed(Exception):
    """A daemon was started and did not come up; `tail` holds the last lines of its `log`."""

    def __init__(self, message: str, log: Path, tail: str) -> None:
        super().__init__(message)
        self.log = log
        self.tail = tail


def log_path() -> Path:
    return paths.logs() / "server.log"


def pid_path(client: Client) -> Path:
    return paths.run() / f"server-{client.port}.pid"


def start(client: Client, output: Output) -> None:
    """Returns when the daemon is ready. Of several commands that start one at once, one does. Raises StartFailed."""
    import filelock

    paths.run().mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{pid_path(client)}.lock"):
        if client.listening():  # another command started one while this one waited
            return _wait_ready(client, None, 0)
        log = log_path()
        output.talk(f"starting a daemon at {client.address}; its log is {log}")
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        begin = log.stat().st_size if log.exists() else 0
        child = _spawn(log)
        pid_path(client).write_text(f"{child.pid}\n")
        _wait_ready(client, child, begin)


def command() -> list[str]:
    """What runs the daemon: this same program."""
    frozen = getattr(sys, "frozen", False)
    return [sys.executable, "serve"] if frozen else [sys.executable, "-m", "localdecide.cli.main", "serve"]


def _spawn(log: Path) -> subprocess.Popen[bytes]:
    detached: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        detached = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
    with log.open("ab") as sink:
        return subprocess.Popen(
            command(),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd=Path(log.anchor),  # a daemon in the caller's folder would keep its disk busy
            env=_environment(),
            **detached,
        )


def _environment() -> dict[str, str]:
    """The caller's environment, with what depends on the working directory made absolute."""
    environment = dict(os.environ)
    if environment.get("LOCALDECIDE_MODELS", "").strip():
        environment["LOCALDECIDE_MODELS"] = str(paths.models().absolute())
    package = Path(__file__).absolute().parents[2]
    if package.name not in ("site-packages", "dist-packages"):  # run from a checkout that is not installed
        searched = environment.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(package), searched)))
    return environment


def _wait_ready(client: Client, child: subprocess.Popen[bytes] | None, begin: int) -> None:
    """Returns when /readyz says yes. Raises StartFailed when `child` ends first or time runs out."""
    deadline = time.monotonic() + READY_SECONDS
    pause = 0.02
    while time.monotonic() < deadline:
        if child is not None and child.poll() is not None and not client.listening():
            pid_path(client).unlink(missing_ok=True)
            raise StartFailed(f"the daemon ended at once with exit code {child.returncode}", log_path(), _tail(begin))
        with contextlib.suppress(Unreachable, Interrupted, DaemonError):
            client.raw("GET", "/readyz", timeout=5.0)
            return
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)
    raise StartFailed(f"the daemon is not ready after {READY_SECONDS:.0f} s", log_path(), _tail(begin))


def _tail(begin: int) -> str:
    """The last lines of the log that were written after byte `begin`."""
    with log_path().open("rb") as log:
        log.seek(begin)
        text = log.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-TAIL_LINES:])
