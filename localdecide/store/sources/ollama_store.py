"""Models that Ollama has on this machine: listed, and adopted by link."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from localdecide.core.errors import StoreFailed
from localdecide.core.names import ModelName
from localdecide.store.blobs import Blobs
from localdecide.store.catalog import Catalog, StoredModel
from localdecide.store.manifests import Manifest
from localdecide.store.sources.base import Offer, Part
from localdecide.store.sources.registry import check, source_of


def roots() -> tuple[Path, ...]:
    """Ollama stores that exist here: OLLAMA_MODELS, the user's, the system service's."""
    given = os.environ.get("OLLAMA_MODELS", "").strip()
    places = [Path(given).expanduser()] if given else []
    places += [Path.home() / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models")]
    return tuple(dict.fromkeys(place for place in places if _readable(place)))


def models(stores: tuple[Path, ...]) -> Iterator[StoredModel]:
    """Every model that could be adopted, all of its files present, newest first in each store."""
    for root in stores:
        for model in Catalog(root).list():
            if _whole(model.blobs, model.manifest):
                yield model


def offer(name: ModelName, stores: tuple[Path, ...]) -> Offer | None:
    """The model of that name in an Ollama store, all of its files present; else None."""
    for root in stores:
        catalog = Catalog(root)
        try:
            model = catalog.find(name)
            written = catalog.manifests.read(model.name) if model else None
        except StoreFailed:
            continue
        if model is None or written is None:
            continue
        manifest = Manifest.from_bytes(written.data)
        if not _whole(catalog.blobs, manifest):
            continue
        check(name, manifest)
        layers = {layer.digest: layer for layer in (manifest.config, *manifest.layers)}
        parts = [
            Part(layer.digest[7:19], layer.digest, layer.size, layer.media_type, path=catalog.blobs.path(layer.digest))
            for layer in layers.values()
        ]
        return Offer(source_of(model.name), model.name, parts, manifest=written.data)
    return None


def blob(digest: str, stores: tuple[Path, ...]) -> Path | None:
    """A file of an Ollama store that should have that digest."""
    for root in stores:
        path = Catalog(root).blobs.path(digest)
        if path.is_file():
            return path
    return None


def _whole(blobs: Blobs, manifest: Manifest) -> bool:
    return all(blobs.has(digest) for digest in manifest.digests)


def _readable(place: Path) -> bool:
    try:
        return (place / "manifests").is_dir() and os.access(place, os.R_OK | os.X_OK)
    except OSError:
        return False
