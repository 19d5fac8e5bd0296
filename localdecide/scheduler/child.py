"""What a child process is born with and how it ended, on POSIX systems and Windows alike."""

from __future__ import annotations

import asyncio.subprocess
import contextlib
import os
import signal
import site
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import localdecide


def environment() -> dict[str, str]:
    """The daemon's own, with what must be set before the child's libraries are loaded."""
    variables = dict(os.environ)
    # Threads that spin while they wait cost up to 18 times the time on shared cores.
    variables.setdefault("OMP_WAIT_POLICY", "passive")
    variables.setdefault("OPENBLAS_NUM_THREADS", "1")
    if home := _uninstalled_home():
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [home, variables.get("PYTHONPATH", "")]))
    return variables


def _uninstalled_home() -> str | None:
    """Where the package lies if that is a checkout, which a child started elsewhere would not find."""
    home = str(Path(localdecide.__file__).resolve().parent.parent)
    installed = {str(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib")}
    return None if home in installed | {site.getusersitepackages()} else home


def own_session() -> dict[str, Any]:
    """Arguments of the start that keep a Ctrl-C on the daemon's terminal from the child."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
    return {"start_new_session": True}


def kill(process: asyncio.subprocess.Process) -> None:
    """Ends it at once; nothing if it has ended."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()


def how_it_ended(code: int | None) -> str:
    """The end of a sentence."""
    if code is None:
        return "ended"
    name = facts(code).get("signal")
    return f"was ended by {name}" if name else f"ended with exit code {code}"


def facts(code: int | None) -> dict[str, Any]:
    """`{"signal": name}` or `{"exit_code": n}`; empty while it is not known."""
    if code is None:
        return {}
    if code < 0:
        try:
            return {"signal": signal.Signals(-code).name}
        except ValueError:
            return {"signal": f"signal {-code}"}
    return {"exit_code": code}
