"""Starting daemons and clients for the contract tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import environments
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
KEY = "contract-key"


# What keeps clients from calling home, which would only slow the tests down.
QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HAYSTACK_TELEMETRY_ENABLED": "False"}


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without proxies, keys and settings that would reach a client."""
    dropped = ("proxy", "localdecide_", "openai_", "typesafe_", "ollama_", "anthropic_")
    kept = {name: value for name, value in os.environ.items() if not name.lower().startswith(dropped)}
    kept = {name: value for name, value in kept.items() if not name.lower().endswith("_proxy")}
    return {**kept, "NO_PROXY": "*", "PYTHONPATH": str(ROOT), **QUIET, **more}


@contextmanager
def started(command: list[str], **more: str) -> Iterator[str]:
    """A server that prints its port; ends with the block."""
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=clean_environment(**more)
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def need(name: str) -> None:
    """Skips without an environment, with what to run; fails instead where CI says it must be there."""
    if environments.ready(name):
        return
    message = f"no environment {name!r}: run python tests/contract/environments.py {name}"
    if os.environ.get("LOCALDECIDE_CONTRACT_REQUIRED") == "1":
        pytest.fail(message)
    pytest.skip(message)
