"""Files that a FROM or HEAD can name on this machine: a path, a folder, or a file inside an installed package."""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

from localdecide.core.errors import Forbidden, InvalidRequest, ModelNotFound, StoreFailed
from localdecide.store.blobs import resolve_file

PACKAGE = "package:"
SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)


def is_package(source: str) -> bool:
    return source.startswith(PACKAGE)


def package_file(source: str, install: str | None = None) -> Path:
    """The file of `package:NAME/path/in/it`, found without importing the package.

    install: the requirement to name when the package is missing (default: NAME itself).
    Raises InvalidRequest for a malformed source or a file that the package does not hold; ModelNotFound,
    with what to type, for a missing package.
    """
    package, _, inside = source.removeprefix(PACKAGE).partition("/")
    parts = Path(inside).parts
    named = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", package)
    if not named or not inside or ".." in parts or os.path.isabs(inside):
        raise InvalidRequest.at(("from",), f"'{source}' is not package:NAME/path of a file inside it")
    folders = package_folders(package.replace("-", "_"))
    if not folders:
        command = f"pip install '{install or package}'"
        message = f"the package {package} is not installed; to get it: {command}"
        raise ModelNotFound(message, {"package": package, "install": command})
    for folder in folders:
        if (file := folder.joinpath(*parts)).is_file():
            return resolve_file(file)
    raise InvalidRequest(f"the package {package} in {folders[0]} holds no file {inside}", {"package": package})


def package_folders(package: str) -> list[Path]:
    """Where an importable top-level package lies; empty if it is not installed. Imports nothing."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    return [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []


def local_file(source: str, directory: Path | None) -> Path | None:
    """The file or folder that `source` names as a path; None if nothing lies there and it may be a model's name.

    A relative path starts at `directory`; without one it is not looked for.
    Raises InvalidRequest when `source` can only be a path and nothing lies there.
    """
    text = source.removeprefix("file://") if source.startswith("file://") else source
    path = Path(text).expanduser() if text.startswith("~") else Path(text)
    if not path.is_absolute():
        if directory is None:
            return None
        path = directory / path
    try:
        if path.exists():
            return path
    except OSError as error:
        raise StoreFailed(f"cannot read {path}: {error.strerror}", {"path": str(path)}) from None
    if is_path(source) or path.suffix.lower() == ".gguf" or path.is_symlink():
        resolve_file(path)
    return None


@dataclass(frozen=True, slots=True)
class Where:
    """How paths in a request are read. directory: what relative ones start at; remote: the request came from
    another machine, which may name no file of this one."""

    directory: Path | None = None
    remote: bool = False

    def file(self, source: str) -> Path | None:
        """See `local_file`. Raises Forbidden for a path that came from elsewhere."""
        if not self.remote:
            return local_file(source, self.directory)
        if is_path(source):
            raise Forbidden("only a program on this machine may name a file of it; upload the file as a blob")
        return None


def is_path(source: str) -> bool:
    """Whether a source can be nothing but a path."""
    return source.startswith((".", "/", "~", os.sep, "file:")) or os.path.isabs(source)


def gguf_files(path: Path) -> list[Path]:
    """The GGUFs that a path means: the file, all pieces of the file it is one of, or what a folder holds, by name.

    Raises InvalidRequest if there is none.
    """
    if not path.is_dir():
        if match := SHARD.fullmatch(path.name):
            others = [other for other in path.parent.glob("*.gguf") if SHARD.fullmatch(other.name)]
            return sorted(other for other in others if other.name.startswith(f"{match[1]}-"))
        return [resolve_file(path)]
    folder = path
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".gguf" and path.is_file())
    if not found:
        hint = "; convert the checkpoint with gguf_convert" if any(folder.glob("*.safetensors")) else ""
        raise InvalidRequest(f"{folder} holds no GGUF file{hint}", {"path": str(folder)})
    return found
