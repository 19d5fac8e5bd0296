"""A model being put together: layers gathered from files and models, then written as one manifest."""

from __future__ import annotations

import json
import platform
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from localdecide.core.errors import BadModelFile, InvalidRequest, StoreFailed
from localdecide.core.names import ModelName
from localdecide.store import manifests as media
from localdecide.store.blobs import file_digest
from localdecide.store.catalog import Catalog, StoredModel
from localdecide.store.facts import HeaderFacts, facts_from
from localdecide.store.gguf_header import Header, read_header
from localdecide.store.gguf_split import needs_split
from localdecide.store.locks import Claims
from localdecide.store.manifests import Layer, Manifest
from localdecide.store.places import SHARD
from localdecide.store.rewrite import join_shards, split_file

PROJECTOR_ARCHITECTURES = ("clip", "mmproj")


class Draft:
    """What the next manifest will hold. Nothing but blobs is written before `write`.

    claim: the writer's claims, which must outlive `write`. stop: ends long copies.
    """

    def __init__(self, catalog: Catalog, claim: Claims, stop: threading.Event | None = None) -> None:
        self.catalog = catalog
        self.claim = claim
        self.stop = stop or threading.Event()
        self.files: list[Layer] = []
        self.texts: dict[str, list[str]] = {}
        self.parameters: dict[str, Any] = {}
        self.decision: dict[str, Any] = {}
        self.facts: HeaderFacts | None = None
        self.config: dict[str, Any] = {}
        self.replaced: set[str] = set()

    def inherit(self, model: StoredModel) -> None:
        """Start from everything that an installed model is. Raises StoreFailed if it was removed meanwhile."""
        self.claim(*model.manifest.digests)
        if missing := [digest for digest in sorted(model.manifest.digests) if not self.catalog.blobs.has(digest)]:
            raise StoreFailed(f"{model.name}: {missing[0][:19]} is missing; pull or create it again")
        texts = (media.TEMPLATE, media.SYSTEM, media.PROMPT)
        self.files = [layer for layer in model.manifest.layers if layer.media_type not in _REBUILT]
        self.texts = {kind: [text] for kind in texts if (text := model.text(kind))}
        self.texts[media.LICENSE] = model.licenses
        self.parameters = model.parameters
        self.decision = {key: value for key, value in model.decision.items() if key != "library"}
        self.config = {**model.config}
        self.facts = model.facts

    def add_gguf(self, path: Path) -> Iterator[dict[str, Any]]:
        """Add a GGUF as the model, or as a projector if that is what it is. Raises BadModelFile, StoreFailed."""
        yield {"status": "parsing GGUF"}
        header = read_header(path)
        kind = self.kind_of(header)
        if kind == media.MODEL and needs_split(header):
            yield from self._split(header, file_digest(path))
            return
        known = self.catalog.blobs.all()
        digest, size = self.catalog.blobs.add_file(path, self.claim)
        self.files.append(Layer(kind, digest, size))
        yield layer_status(digest, digest in known)

    def add_blob(self, digest: str, size: int) -> Iterator[dict[str, Any]]:
        """Add a GGUF that is a blob already. Raises BadModelFile."""
        yield {"status": "parsing GGUF"}
        header = read_header(self.catalog.blobs.path(digest))
        kind = self.kind_of(header)
        if kind == media.MODEL and needs_split(header):
            yield from self._split(header, digest)
            self.replaced.add(digest)
        else:
            self.files.append(Layer(kind, digest, size))

    def add_shards(self, paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
        """Add a GGUF that comes in pieces, given in their order. Raises BadModelFile, DiskFull."""
        (whole,) = yield from join_shards(self.catalog.blobs, self.claim, paths, self.stop)
        yield from self.add_blob(whole.digest, whole.size)

    def add_files(self, paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
        """Add GGUFs: shards of one file as one, projectors beside the model. Raises BadModelFile, StoreFailed."""
        paths = list(paths)
        if shards := [path for path in paths if SHARD.fullmatch(path.name)]:
            yield from self.add_shards(shards)
        for path in paths:
            if path not in shards:
                yield from self.add_gguf(path)

    def _split(self, header: Header, digest: str) -> Iterator[dict[str, Any]]:
        """Take backbone and head in place of a file that holds both."""
        layers = yield from split_file(self.catalog.blobs, self.claim, header, digest, self.stop)
        self.files += layers
        self.facts = facts_from(read_header(self.catalog.blobs.path(layers[0].digest)))

    def keep(self, layers: Iterable[Layer]) -> None:
        """Take over the parts that an earlier import cut from a file. Raises StoreFailed if one is gone."""
        for layer in layers:
            self.claim(layer.digest)
            path = self.catalog.blobs.path(layer.digest)
            if not path.is_file():
                raise StoreFailed(f"{layer.digest[:19]} was removed meanwhile; pull again")
            self.files.append(layer)
            if layer.media_type == media.MODEL:
                self.facts = facts_from(read_header(path))

    def take_over(self, manifest: Manifest, kept: Mapping[str, list[Layer]]) -> Iterator[dict[str, Any]]:
        """Start from a manifest whose blobs are all here, but for those of which the parts are kept.

        Raises BadModelFile, StoreFailed.
        """
        blobs = self.catalog.blobs
        self.files = [layer for layer in manifest.layers if layer.media_type not in (*_REBUILT, media.MODEL)]
        for layer in manifest.layers:
            if layer.media_type in (media.TEMPLATE, media.SYSTEM, media.PROMPT, media.LICENSE):
                self.texts.setdefault(layer.media_type, []).append(_text(blobs.path(layer.digest)))
        if params := manifest.first(media.PARAMS):
            self.parameters = _object(_text(blobs.path(params.digest)))
        if decision := manifest.first(media.DECISION):
            self.decision = _object(_text(blobs.path(decision.digest)))
        self.config = _object(_text(blobs.path(manifest.config.digest)))
        for layer in manifest.of(media.MODEL):
            if layer.digest in kept:
                self.keep(kept[layer.digest])
            else:
                yield from self.add_blob(layer.digest, layer.size)

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
        digest, size = self.catalog.blobs.add_file(path, self.claim)
        self.replace_file(Layer(media_type, digest, size))
        yield layer_status(digest, digest in known)

    def replace_file(self, layer: Layer) -> None:
        """Take a blob in place of an earlier one of its kind."""
        self.files = [other for other in self.files if other.media_type != layer.media_type]
        self.files.append(layer)

    def write(self, name: ModelName) -> Iterator[dict[str, Any]]:
        """Write the small layers and the manifest. `written` comes after it, once the claims have ended."""
        if self.facts is None:
            raise InvalidRequest.at(("from",), "names no model weights")
        before = self.catalog.find(name)
        layers = list(self.files)
        known = self.catalog.blobs.all()
        for media_type, data in self._small():
            digest, size = self.catalog.blobs.add(data, self.claim)
            layers.append(Layer(media_type, digest, size))
            yield layer_status(digest, digest in known)
        digest, size = self.catalog.blobs.add(self._config(layers), self.claim)
        manifest = Manifest(Layer(media.CONFIG, digest, size), tuple(layers))
        yield {"status": "writing manifest"}
        self.catalog.manifests.write(self.catalog.casing(name), manifest)
        if before:
            self.replaced |= before.manifest.digests
        self.replaced -= manifest.digests

    def written(self) -> Iterator[dict[str, Any]]:
        """Remove what only the replaced model used."""
        if self.catalog.collect(self.replaced):
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


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise StoreFailed(f"a layer of the model is not JSON: {error}") from None
    return value if isinstance(value, dict) else {}


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
