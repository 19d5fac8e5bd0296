"""A model being put together: layers gathered from files and models, then written as one manifest."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from localdecide.core.errors import BadModelFile, InvalidRequest
from localdecide.core.names import ModelName
from localdecide.store import manifests as media
from localdecide.store.catalog import Catalog, StoredModel
from localdecide.store.facts import HeaderFacts, facts_from
from localdecide.store.gguf_header import Header, read_header
from localdecide.store.manifests import Layer, Manifest

PROJECTOR_ARCHITECTURES = ("clip", "mmproj")


class Draft:
    """What the next manifest will hold. Nothing but blobs is written before `write`."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.files: list[Layer] = []
        self.texts: dict[str, list[str]] = {}
        self.parameters: dict[str, Any] = {}
        self.decision: dict[str, Any] = {}
        self.facts: HeaderFacts | None = None
        self.config: dict[str, Any] = {}
        self._replaced: set[str] = set()

    def inherit(self, model: StoredModel) -> None:
        """Start from everything that an installed model is."""
        texts = (media.TEMPLATE, media.SYSTEM, media.PROMPT)
        self.files = [layer for layer in model.manifest.layers if layer.media_type not in _REBUILT]
        self.texts = {kind: [text] for kind in texts if (text := model.text(kind))}
        self.texts[media.LICENSE] = model.licenses
        self.parameters = model.parameters
        self.decision = {key: value for key, value in model.decision.items() if key != "library"}
        self.decision["parent_model"] = str(model.name)
        self.config = dict(model.config)
        self.facts = model.facts

    def add_gguf(self, path: Path, origin: str | None = None) -> Iterator[dict[str, Any]]:
        """Add a GGUF as the model, or as a projector if that is what it is. Raises BadModelFile, StoreFailed."""
        yield {"status": "parsing GGUF"}
        header = read_header(path)
        kind = self.kind_of(header)
        known = self.catalog.blobs.all()
        digest, size = self.catalog.blobs.add_file(path)
        self.files.append(Layer(kind, digest, size, {"origin": origin} if origin else {}))
        yield layer_status(digest, digest in known)

    def kind_of(self, header: Header) -> str:
        """The media type of a GGUF; remembers the facts of the model. Raises BadModelFile for a second model."""
        if header.architecture in PROJECTOR_ARCHITECTURES:
            return media.PROJECTOR
        if header.metadata.get("general.type") == "adapter":
            raise BadModelFile(f"{header.path.name} is a LoRA adapter, not a model: merge it into its base model first")
        if self.facts is not None:
            raise BadModelFile(f"{header.path.name} is a second model; a model is made from one and its projector")
        if not header.tensors:
            raise BadModelFile(f"{header.path.name} holds no weights, only a vocabulary")
        self.facts = facts_from(header)
        return media.MODEL

    def add_file(self, media_type: str, path: Path) -> Iterator[dict[str, Any]]:
        """Add any other file as it is, in place of an earlier one of its kind."""
        known = self.catalog.blobs.all()
        digest, size = self.catalog.blobs.add_file(path)
        self.files = [layer for layer in self.files if layer.media_type != media_type]
        self.files.append(Layer(media_type, digest, size))
        yield layer_status(digest, digest in known)

    def write(self, name: ModelName) -> Iterator[dict[str, Any]]:
        """Write the small layers and the manifest. The caller holds the writer's lock; see `written`."""
        if self.facts is None:
            raise InvalidRequest.at(("from",), "names no model weights")
        before = self.catalog.find(name)
        layers = list(self.files)
        known = self.catalog.blobs.all()
        for media_type, data in self._small():
            digest, size = self.catalog.blobs.add(data)
            layers.append(Layer(media_type, digest, size))
            yield layer_status(digest, digest in known)
        digest, size = self.catalog.blobs.add(self._config(layers))
        manifest = Manifest(Layer(media.CONFIG, digest, size), tuple(layers))
        yield {"status": "writing manifest"}
        self.catalog.manifests.write(self.catalog.casing(name), manifest)
        self._replaced = before.manifest.digests - manifest.digests if before else set()

    def written(self) -> Iterator[dict[str, Any]]:
        """Once the writer's lock is given back: remove what only the replaced model used."""
        if self.catalog.collect(self._replaced):
            yield {"status": "removing unused layers"}
        yield {"status": "success"}

    def _small(self) -> Iterator[tuple[str, bytes]]:
        for media_type, texts in self.texts.items():
            for text in texts:
                yield media_type, text.encode()
        if self.parameters:
            yield media.PARAMS, _json(self.parameters)
        if self.decision:
            yield media.DECISION, _json(self.decision)

    def _config(self, layers: Iterable[Layer]) -> bytes:
        facts = self.facts
        assert facts is not None
        config: dict[str, Any] = {
            **self.config,
            "model_format": "gguf",
            "model_family": facts.architecture,
            "model_families": [facts.architecture],
            "model_type": facts.parameter_size,
            "file_type": facts.quantization,
            "capabilities": ["decision"],
            "context_length": facts.context_train,
            "embedding_length": facts.embedding_length,
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
            "os": sys.platform,
            "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
        }
        return _json(config)


_REBUILT = (media.TEMPLATE, media.SYSTEM, media.PROMPT, media.LICENSE, media.PARAMS, media.DECISION)


def layer_status(digest: str, existing: bool) -> dict[str, Any]:
    return {"status": f"{'using existing' if existing else 'creating new'} layer {digest}"}


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
