"""The rooms of the house and the doors between them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import localdecide

PACKAGE = Path(localdecide.__file__).parent

# What each room may import of the others; its own modules always.
DOORS: dict[str, set[str]] = {
    "core": set(),
    "settings": {"core"},
    "paths": set(),
    "families": {"core"},
    "engine": {"core"},
    "runner": {"core", "families", "engine"},
    "store": {"core", "paths", "settings"},
    "scheduler": {"core", "store", "settings", "paths"},
    "local": {"core", "scheduler", "store", "settings", "paths", "service"},
    "service": {"core"},
    "dialects": {"core", "service", "settings"},
    "server": {"core", "dialects", "service", "settings", "paths", "local", "store", "scheduler"},
    "cli": {"core", "settings", "paths", "server"},
}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem != "__init__")


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Every localdecide room and outside package a module names, at any depth of its code."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found.update(names)
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path: Path) -> None:
    """A module imports only rooms below its own."""
    allowed = DOORS[room(path)] | {room(path), "__version__"}
    used = {name.split(".")[1] for name in imports(path) if name.startswith("localdecide.")}

    assert used - allowed == set()


def test_only_the_engine_imports_llama_cpp() -> None:
    """llama.cpp is reached from one folder."""
    users = {room(path) for path in modules() if any(name.split(".")[0] == "llama_cpp" for name in imports(path))}

    assert users == {"engine"}


def test_the_terminal_reaches_the_server_in_one_place() -> None:
    """Only `serve` starts the server in its own process; every other command talks HTTP."""
    users = {path.name for path in modules() if room(path) == "cli" and "server" in {
        name.split(".")[1] for name in imports(path) if name.startswith("localdecide.")
    }}  # fmt: skip

    assert users <= {"serve.py"}


def test_files_stay_short() -> None:
    """No file is over 500 lines, and half of them are under 150."""
    lengths = sorted(len(path.read_text().splitlines()) for path in modules())

    assert lengths[-1] <= 500
    assert lengths[len(lengths) // 2] <= 150


def test_the_terminal_starts_light() -> None:
    """Importing the command line loads no heavy library."""
    heavy = {"fastapi", "pydantic", "numpy", "llama_cpp", "rich", "httpx", "huggingface_hub"}
    code = "import sys, localdecide.cli.main; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert set(loaded) & heavy == set()


def test_the_daemon_loads_no_model_library() -> None:
    """The daemon's modules load neither llama_cpp nor numpy."""
    code = (
        "import sys, localdecide.server.main, localdecide.local; print(*{name.split('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert set(loaded) & {"llama_cpp", "numpy", "gguf"} == set()
