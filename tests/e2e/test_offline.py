"""The whole program on a machine without a network: a namespace that holds nothing but its own loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
set -e
ip link set lo up
trap '"$PYTHON" -m localdecide.cli.main shutdown 2>/dev/null || true' EXIT
decide() { "$PYTHON" -m localdecide.cli.main "$@" 2>>"$LOG"; }
decide run smollm2 "The striker scored twice." --choice 'topic: What is it about? = sports | cooking' --json
decide pull smollm2
decide export smollm2 "$BUNDLE"
decide rm smollm2
decide import "$BUNDLE" --as again
decide verify
decide list --quiet
decide search kev --quiet
if decide pull kev; then echo pulled; else echo refused; fi
"""


@pytest.mark.network_namespace
@pytest.mark.usefixtures("smollm2")
@pytest.mark.parametrize("offline", ["1", "0"])
def test_everything_about_models_that_are_here(tmp_path: Path, offline: str) -> None:
    """Run, pull, move, check and list work; only a pull from elsewhere fails, and says why."""
    probe = subprocess.run(["unshare", "-n", "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("needs the right to make a network namespace")
    variables = {
        "PYTHON": sys.executable,
        "LOG": str(tmp_path / "log"),
        "BUNDLE": str(tmp_path / "bundle.tar"),
        "HOME": str(tmp_path),
        "LOCALDECIDE_MODELS": str(tmp_path / "models"),
        "LOCALDECIDE_HOST": "127.0.0.1:11499",
        "LOCALDECIDE_OFFLINE": offline,
    }

    done = subprocess.run(
        ["unshare", "-n", "bash", "-c", SCRIPT],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    said = (tmp_path / "log").read_text()
    assert done.returncode == 0, said
    reply, _, rest = done.stdout.partition("}\n")
    assert json.loads(reply + "}")["answers"]["topic"]["choice"] == "sports"
    names = rest.split()
    assert names[:2] == ["again:latest", "kev:latest"]
    assert names[-1] == "refused"
    expected = "LOCALDECIDE_OFFLINE=1 forbids it" if offline == "1" else "huggingface.co"
    assert expected in said
