"""Builds the environments of the real clients: `python tests/contract/environments.py [NAME...]`.

Clients of this field need each other's opposite versions (openai 2 and 3, httpx and httpx2), so each
group has a virtual environment or npm folder of its own, under LOCALDECIDE_CONTRACT_ENVIRONMENTS or the
user's cache folder. An environment that holds what is asked for is left as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import platformdirs

# What each group of clients needs; pins only where a client names its own.
PYTHON: dict[str, tuple[str, ...]] = {
    "typesafe": ("typesafe-sdk[zstd]>=0.7.1,<0.8", "jevcompat>=0.1.1"),
    "openai3": ("openai>=3.26,<4", "anthropic>=2.10,<3", "ollama>=0.6.3"),
    "pydantic_ai": ("pydantic-ai-slim[openai,typesafe]>=2.68",),
    "semantic_router": ("semantic-router>=1.1.1",),
    "litellm": ("litellm>=1.110",),
    "langchain": ("langchain-typesafe>=0.0.1a3", "langchain-openai>=1.7"),
    "haystack": ("typesafe-haystack>=0.1.1", "haystack-ai>=3.4"),
    "schemathesis": ("schemathesis>=4",),
}
NODE: dict[str, tuple[str, ...]] = {"node": ("ollama@0.6", "@typesafe-ai/sdk@0.6", "openai@6")}

STAMP = "localdecide-contract.txt"


def root() -> Path:
    """The folder of all environments."""
    given = os.environ.get("LOCALDECIDE_CONTRACT_ENVIRONMENTS", "")
    return Path(given) if given else Path(platformdirs.user_cache_path("localdecide")) / "contract"


def folder(name: str) -> Path:
    """The folder of one environment."""
    return root() / name


def ready(name: str) -> bool:
    """Whether the environment was built from what is asked for today."""
    stamp = folder(name) / STAMP
    wanted = "\n".join(PYTHON.get(name) or NODE[name])
    return stamp.is_file() and stamp.read_text() == wanted


def python(name: str) -> Path:
    """The interpreter of a Python environment."""
    return folder(name) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def build(name: str) -> None:
    """Builds one environment from the registries, from nothing."""
    shutil.rmtree(folder(name), ignore_errors=True)
    if name in PYTHON:
        venv.create(folder(name), with_pip=True)
        command = [str(python(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PYTHON[name]]
        subprocess.run(command, check=True)
    else:
        folder(name).mkdir(parents=True)
        (folder(name) / "package.json").write_text('{"private": true, "type": "module"}')
        npm = shutil.which("npm")
        if npm is None:
            raise OSError("npm is needed for the JavaScript clients; install Node.js 20 or newer")
        quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([npm, "install", *quiet, *NODE[name]], cwd=folder(name), check=True)
    (folder(name) / STAMP).write_text("\n".join(PYTHON.get(name) or NODE[name]))


def main(names: list[str]) -> int:
    """Builds what is missing; 1 where something could not be built."""
    failed = []
    for name in names or [*PYTHON, *NODE]:
        if ready(name):
            continue
        sys.stderr.write(f"building {folder(name)}\n")
        try:
            build(name)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.stderr.write(f"{name}: {error}\n")
            failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
