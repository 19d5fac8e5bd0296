"""Manifests: `manifests/<host>/<namespace>/<model>/<tag>`, JSON in the Docker v2 shape that Ollama uses."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from localdecide.core.errors import StoreFailed
from localdecide.core.names import ModelName
from localdecide.store.blobs import disk_errors, hex_of, sync_folder, write_atomically

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
_OLLAMA = "application/vnd.ollama.image."
MODEL = _OLLAMA + "model"
PROJECTOR = _OLLAMA + "projector"
ADAPTER = _OLLAMA + "adapter"
TEMPLATE = _OLLAMA + "template"
PROMPT = _OLLAMA + "prompt"
SYSTEM = _OLLAMA + "system"
PARAMS = _OLLAMA + "params"
MESSAGES = _OLLAMA + "messages"
LICENSE = _OLLAMA + "license"
_OURS = "application/vnd.localdecide.image."
DECISION = _OURS + "decision"
"""JSON: family, readouts, labels, temperatures, attention, prompt, notes (Modelfile lines kept for show)."""
HEAD = _OURS + "head"
"""A file with the weights of a head."""
ORIGIN = _OURS + "origin"
"""What `export` needs to give an upstream file back that was split at import."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One blob of a model. annotations: our own facts about it (`origin`: digest of the file it was cut from)."""

    media_type: str
    digest: str
    size: int
    annotations: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        return {**plain, "annotations": dict(self.annotations)} if self.annotations else plain

    @classmethod
    def from_json(cls, value: Any) -> Layer:
        digest = str(value["digest"])
        hex_of(digest)
        notes = value.get("annotations") or {}
        return cls(str(value["mediaType"]), digest, int(value["size"]), {str(k): str(v) for k, v in notes.items()})


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a model is made of."""

    config: Layer
    layers: tuple[Layer, ...]

    def to_bytes(self) -> bytes:
        body = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.config.to_json(),
            "layers": [layer.to_json() for layer in self.layers],
        }
        return json.dumps(body, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Raises StoreFailed for what is not a manifest."""
        try:
            body = json.loads(data)
            return cls(Layer.from_json(body["config"]), tuple(Layer.from_json(layer) for layer in body["layers"] or ()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StoreFailed(f"not a model manifest: {error}") from None

    def of(self, media_type: str) -> list[Layer]:
        return [layer for layer in self.layers if layer.media_type == media_type]

    def first(self, media_type: str) -> Layer | None:
        return next(iter(self.of(media_type)), None)

    @property
    def digests(self) -> set[str]:
        return {self.config.digest, *(layer.digest for layer in self.layers)}

    @property
    def size(self) -> int:
        """Bytes of everything the model is made of, each blob once."""
        sizes = {self.config.digest: self.config.size} | {layer.digest: layer.size for layer in self.layers}
        return sum(sizes.values())


@dataclass(frozen=True, slots=True)
class Written:
    """A manifest file: its name, bytes and when it was written (seconds since 1970)."""

    name: ModelName
    path: Path
    data: bytes
    modified: float


class Manifests:
    """The manifest files of one store."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "manifests"

    def path(self, name: ModelName) -> Path:
        return _path(self.folder, name)

    def names(self) -> Iterator[tuple[ModelName, Path]]:
        """Every name that has a file, four folders deep and no deeper, so that links cannot lead in circles."""
        for host in _entries(self.folder):
            for namespace in _entries(host):
                for model in _entries(namespace):
                    for tag in _entries(model):
                        name = ModelName(model.name, tag.name, namespace.name, host.name)
                        if name.valid and tag.is_file():
                            yield name, tag

    def read(self, name: ModelName) -> Written | None:
        """The file of exactly that name, or None."""
        path = self.path(name)
        try:
            with path.open("rb") as file:
                return Written(name, path, file.read(), os.fstat(file.fileno()).st_mtime)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise StoreFailed(f"cannot read {path}: {error.strerror or error}", {"path": str(path)}) from None

    def write(self, name: ModelName, manifest: Manifest) -> None:
        """Raises StoreNotWritable, DiskFull."""
        self.write_bytes(name, manifest.to_bytes())

    def write_bytes(self, name: ModelName, data: bytes) -> None:
        """The bytes of a manifest as they are. Raises StoreNotWritable, DiskFull."""
        write_atomically(self.path(name), data)

    def remove(self, name: ModelName) -> None:
        """Delete the file and the folders it leaves empty. Raises StoreNotWritable."""
        path = self.path(name)
        with disk_errors(path.parent):
            path.unlink(missing_ok=True)
            sync_folder(path.parent)
        for folder in list(path.parents)[:3]:
            with contextlib.suppress(OSError):
                folder.rmdir()


@lru_cache(maxsize=256)  # every request asks
def _path(folder: Path, name: ModelName) -> Path:
    return folder.joinpath(*name.parts)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError:
        return []
