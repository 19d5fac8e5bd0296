"""What is installed: manifests read into models, and the names that lead to them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from localdecide.core import names
from localdecide.core.errors import InvalidName, LocaldecideError, ModelNotFound, StoreFailed
from localdecide.core.model import ModelSpec, Readout
from localdecide.core.modelfile import ENGINE_PARAMETERS, RENDERERS
from localdecide.core.names import ModelName
from localdecide.store import manifests as media
from localdecide.store.blobs import Blobs
from localdecide.store.facts import HeaderFacts, facts_of
from localdecide.store.locks import Locks
from localdecide.store.manifests import Manifest, Manifests, Written


@dataclass(frozen=True)
class StoredModel:
    """One installed model.

    digest: sha256 hex of the manifest. size: bytes of all its blobs. modified: RFC 3339.
    raw: the manifest's bytes.
    """

    name: ModelName
    digest: str
    modified: str
    manifest: Manifest
    raw: bytes = field(repr=False)
    blobs: Blobs = field(repr=False)

    @property
    def size(self) -> int:
        return self.manifest.size

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The config blob; empty if it is missing: but for a renderer, nothing about it changes an answer."""
        try:
            return self._json(self.manifest.config.digest)
        except StoreFailed:
            return {}

    @cached_property
    def decision(self) -> Mapping[str, Any]:
        """Our decision layer: family, readouts, temperatures, ... Raises StoreFailed if it is missing."""
        layer = self.manifest.first(media.DECISION)
        return self._json(layer.digest) if layer else {}

    @property
    def capabilities(self) -> tuple[str, ...]:
        return ("decision", "vision") if self.manifest.of(media.PROJECTOR) else ("decision",)

    @property
    def details(self) -> dict[str, Any]:
        """Ollama's `details` object."""
        config = self.config
        family = str(config.get("model_family") or "")
        details: dict[str, Any] = {
            "parent_model": str(config.get("parent_model") or ""),
            "format": str(config.get("model_format") or "gguf"),
            "family": family,
            "families": list(config.get("model_families") or ([family] if family else [])),
            "parameter_size": str(config.get("model_type") or ""),
            "quantization_level": str(config.get("file_type") or ""),
        }
        for key in ("context_length", "embedding_length"):
            if config.get(key):
                details[key] = config[key]
        return details

    def card(self) -> dict[str, Any]:
        """The fields of `service.ModelCard`: name, digest, size, modified, details, capabilities."""
        return {
            "name": str(self.name),
            "digest": self.digest,
            "size": self.size,
            "modified": self.modified,
            "details": self.details,
            "capabilities": self.capabilities,
        }

    @cached_property
    def path(self) -> Path:
        """The GGUF on disk. Raises StoreFailed if the model has none or it is gone."""
        return self._file(media.MODEL, "weights")

    @cached_property
    def facts(self) -> HeaderFacts:
        """What the GGUF header says about size and shape; read once per file. Raises BadModelFile, StoreFailed."""
        return facts_of(self.path)

    @cached_property
    def spec(self) -> ModelSpec:
        """What a runner needs. Raises StoreFailed if a file is gone."""
        layer = self.manifest.first(media.MODEL)
        decision = self.decision
        readouts = {kind: Readout(**value) for kind, value in (decision.get("readouts") or {}).items()}
        return ModelSpec(
            name=str(self.name),
            path=str(self.path),
            digest=layer.digest if layer else "",
            head=self._optional(media.HEAD),
            projector=self._optional(media.PROJECTOR),
            family=decision.get("family") or RENDERERS.get(str(self.config.get("renderer") or "")),
            template=self.text(media.TEMPLATE) or self.text(media.PROMPT) or None,
            system=self.text(media.SYSTEM) or None,
            prompt=decision.get("prompt"),
            attention=decision.get("attention"),
            parameters={key: value for key, value in self.parameters.items() if key in ENGINE_PARAMETERS},
            readouts=readouts,
            temperatures=dict(decision.get("temperatures") or {}),
            labels={kind: tuple(words) for kind, words in (decision.get("labels") or {}).items()},
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Every PARAMETER, those that decisions ignore included."""
        value = json.loads(self.text(media.PARAMS) or "{}")
        return dict(value) if isinstance(value, dict) else {}

    @property
    def licenses(self) -> list[str]:
        return [self._read(layer.digest) for layer in self.manifest.of(media.LICENSE)]

    def text(self, media_type: str) -> str:
        """The text of the first layer of that kind; empty if there is none."""
        layer = self.manifest.first(media_type)
        return self._read(layer.digest) if layer else ""

    def _read(self, digest: str) -> str:
        try:
            return self.blobs.path(digest).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise StoreFailed(f"{self.name}: {digest[:19]} is missing: {error.strerror}; pull it again") from None

    def _json(self, digest: str) -> dict[str, Any]:
        try:
            value = json.loads(self._read(digest))
        except ValueError as error:
            raise StoreFailed(f"{self.name}: {digest[:19]} is damaged: {error}; pull it again") from None
        return value if isinstance(value, dict) else {}

    def _optional(self, media_type: str) -> str | None:
        return str(self._file(media_type, media_type)) if self.manifest.of(media_type) else None

    def _file(self, media_type: str, what: str) -> Path:
        layer = self.manifest.first(media_type)
        if layer is None:
            raise StoreFailed(f"{self.name} holds no {what} that localdecide can load", {"model": str(self.name)})
        path = self.blobs.path(layer.digest)
        try:
            size = path.stat().st_size
        except OSError:
            message = f"{self.name}: its {what} ({layer.digest[:19]}) are missing; pull or create it again"
            raise StoreFailed(message, {"model": str(self.name)}) from None
        if size != layer.size:
            message = f"{self.name}: its {what} have {size} bytes and should have {layer.size}; pull or create it again"
            raise StoreFailed(message, {"model": str(self.name)})
        return path


class Catalog:
    """The installed models of one store. Files are read again whenever they have changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blobs = Blobs(root)
        self.manifests = Manifests(root)
        self.locks = Locks(root)
        self._lock = threading.Lock()
        self._cache: dict[Path, tuple[tuple[int, int, int], StoredModel]] = {}

    def list(self) -> list[StoredModel]:
        """Newest first. What cannot be read is left out: one bad file must not hide the others."""
        found = []
        for name, path in self.manifests.names():
            with contextlib.suppress(StoreFailed):
                if model := self._load(name, path):
                    found.append(model)
        return sorted(found, key=lambda model: (model.modified, str(model.name)), reverse=True)

    def find(self, text: str | ModelName) -> StoredModel | None:
        """By exact name, else by the same name in another case. Raises InvalidName."""
        name = names.parse(text) if isinstance(text, str) else text
        if model := self._load(name, self.manifests.path(name)):
            return model
        for other, path in self.manifests.names():
            if other.key == name.key:
                return self._load(other, path)
        return None

    def unchanged(self, model: StoredModel) -> bool:
        """Whether `model` is what its manifest still says: one stat, no reading."""
        path = self.manifests.path(model.name)
        with self._lock:
            known = self._cache.get(path)
        return known is not None and known[1] is model and known[0] == _stamp(path)

    def get(self, text: str, known: Iterable[str] = ()) -> StoredModel:
        """`find`, or ModelNotFound with the nearest installed (or `known`) name as `suggestion`."""
        if model := self.find(text):
            return model
        raise not_found(text, [*(str(name) for name, _ in self.manifests.names()), *known])

    def copy(self, source: str, destination: str) -> None:
        for text, role in ((source, "source"), (destination, "destination")):
            if not names.is_valid(text):
                raise InvalidName(f'{role} "{text}" is invalid', {"name": text})
        name = self.casing(names.parse(destination))
        with self.locks.writing() as claim:
            model = self.get(source)
            claim(*model.manifest.digests)
            model = self.get(source)
            before = self.find(name)
            self.manifests.write(name, model.manifest)
        if before:
            self.collect(before.manifest.digests - model.manifest.digests)

    def delete(self, text: str) -> ModelName:
        if not names.is_valid(text):
            raise InvalidName(f'name "{text}" is invalid', {"name": text})
        try:
            model = self.get(text)
        except StoreFailed:  # a manifest that cannot be read: what it named is left to prune
            name = self.casing(names.parse(text))
            self.manifests.remove(name)
            return name
        self.manifests.remove(model.name)
        self.collect(model.manifest.digests)
        return model.name

    def casing(self, name: ModelName) -> ModelName:
        """The installed name that differs from `name` only in case, if there is one."""
        return next((other for other, _ in self.manifests.names() if other.key == name.key), name)

    def used(self) -> set[str]:
        """Digests that any manifest names. Raises StoreFailed for a manifest that cannot be read."""
        digests: set[str] = set()
        for name, _ in self.manifests.names():
            if written := self.manifests.read(name):
                digests |= Manifest.from_bytes(written.data).digests
        return digests

    def collect(self, candidates: set[str]) -> dict[str, int]:
        """Remove those of `candidates` that no manifest names; gives bytes by digest.

        Removes nothing while any manifest cannot be read: it may name one of them.
        """
        if not candidates:
            return {}
        with self.locks.removing() as claimed:
            try:
                unused = candidates - claimed - self.used()
            except LocaldecideError:
                return {}
            return {digest: self.blobs.remove(digest) for digest in sorted(unused)}

    def _load(self, name: ModelName, path: Path) -> StoredModel | None:
        stamp = _stamp(path)
        if stamp is None:
            return None
        with self._lock:
            known = self._cache.get(path)
        if known and known[0] == stamp:
            return known[1]
        written = self.manifests.read(name)
        if written is None:
            return None
        model = self._parse(written)
        with self._lock:
            self._cache[path] = (stamp, model)
        return model

    def _parse(self, written: Written) -> StoredModel:
        return StoredModel(
            name=written.name,
            digest=hashlib.sha256(written.data).hexdigest(),
            modified=datetime.fromtimestamp(written.modified, UTC).isoformat().replace("+00:00", "Z"),
            manifest=Manifest.from_bytes(written.data),
            raw=written.data,
            blobs=self.blobs,
        )


def not_found(text: str, known: Iterable[str], **details: Any) -> ModelNotFound:
    """`model 'x' not found`, with the nearest of `known` as `suggestion`."""
    return ModelNotFound(f"model '{text}' not found", {"suggestion": names.nearest(text, known), **details})


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written anew; None where there is no file."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
