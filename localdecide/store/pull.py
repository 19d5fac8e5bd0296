"""Pulling a model: what its source offers becomes blobs, then a manifest, written last."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any

from localdecide.core import names
from localdecide.core.errors import InvalidName, InvalidRequest, ModelNotFound, StoreFailed
from localdecide.store import manifests as media
from localdecide.store.catalog import StoredModel
from localdecide.store.create import apply
from localdecide.store.draft import Draft
from localdecide.store.fetch import Fetch
from localdecide.store.gguf_header import read_header
from localdecide.store.gguf_split import needs_split
from localdecide.store.locks import Claims
from localdecide.store.manifests import Layer, Manifest
from localdecide.store.places import SHARD
from localdecide.store.sources.base import Context, Offer
from localdecide.store.sources.choose import library_entry, offer_for

Progress = Iterator[dict[str, Any]]
Kept = dict[str, list[Layer]]
"""Layers by the digest of the file that they were cut from."""


def pull(context: Context, request: Mapping[str, Any], stop: threading.Event) -> Progress:
    """Ollama's progress of `/api/pull`, ending in success.

    request: `model` (a name, an URL, a path or package:...), `as` (what to call it), `refresh` (ask the source
    even if the model is here). A model that is here whole opens no connection.
    Raises what the sources raise; InvalidName, InvalidRequest.
    """
    reference = request.get("model")
    if not isinstance(reference, str) or not reference.strip():
        raise InvalidRequest.at(("model",), "is required")
    reference = reference.strip()
    alias = request.get("as")
    if alias is not None and not (isinstance(alias, str) and names.is_valid(alias)):
        raise InvalidName("invalid model name", {"name": alias})
    yield {"status": "pulling manifest"}
    wanted = alias or reference
    if not request.get("refresh") and names.is_valid(wanted) and (model := installed(context, wanted, reference)):
        for layer in model.manifest.layers:
            yield {"status": f"pulling {layer.digest[7:19]}", "digest": layer.digest, "total": layer.size}
            yield {
                "status": f"pulling {layer.digest[7:19]}",
                "digest": layer.digest,
                "total": layer.size,
                "completed": layer.size,
            }
        yield {"status": "success"}
        return
    offer = offer_for(reference, context)
    if alias:
        offer = replace(offer, name=names.parse(alias))
    yield from bring(context, offer, stop)


def installed(context: Context, wanted: str, reference: str) -> StoredModel | None:
    """The model if it is here, whole, and as the library describes it now."""
    try:
        model = context.catalog.find(wanted)
        if model is None or not all(_whole(model, layer) for layer in (model.manifest.config, *model.manifest.layers)):
            return None
        found = library_entry(reference, context)
        if found and model.decision.get("library") not in (None, found[1].stamp):
            model = context.library.resolve(reference, context.catalog)
        return model if found is None or model.decision.get("library") in (None, found[1].stamp) else None
    except (StoreFailed, ModelNotFound):
        return None


def bring(context: Context, offer: Offer, stop: threading.Event) -> Progress:
    """Fetch an offer and install it."""
    catalog = context.catalog
    kept = _kept(context, offer)
    with catalog.locks.writing() as claim:
        fetch = Fetch(context, claim, stop)
        yield from fetch.run(replace(offer, parts=[part for part in offer.parts if part.digest not in kept]))
        yield {"status": "verifying sha256 digest"}
        if offer.manifest is not None and offer.modelfile is None and not _to_split(context, offer.manifest, kept):
            replaced = yield from _verbatim(context, offer)
        else:
            draft = yield from _draft(context, offer, fetch, claim, kept)
            yield from draft.write(offer.name)
            replaced = draft.replaced
    if catalog.collect(replaced):
        yield {"status": "removing unused layers"}
    yield {"status": "success"}


def _verbatim(context: Context, offer: Offer) -> Generator[dict[str, Any], None, set[str]]:
    """Install an Ollama manifest as it is, so that its digest is the registry's."""
    assert offer.manifest is not None
    catalog = context.catalog
    manifest = Manifest.from_bytes(offer.manifest)
    before = catalog.find(offer.name)
    yield {"status": "writing manifest"}
    catalog.manifests.write_bytes(catalog.casing(offer.name), offer.manifest)
    return before.manifest.digests - manifest.digests if before else set()


def _draft(
    context: Context, offer: Offer, fetch: Fetch, claim: Claims, kept: Kept
) -> Generator[dict[str, Any], None, Draft]:
    """Put fetched files and what is said about them together."""
    draft = Draft(context.catalog, claim, fetch.stop)
    if offer.manifest is not None:
        yield from draft.take_over(Manifest.from_bytes(offer.manifest), kept)
    elif offer.shards:
        count = sum(1 for part in offer.parts if SHARD.fullmatch(part.name))
        yield from draft.add_shards([context.catalog.blobs.path(digest) for digest, _ in fetch.found[:count]])
        draft.replaced.update(digest for digest, _ in fetch.found[:count])
        for digest, size in fetch.found[count:]:
            yield from draft.add_blob(digest, size)
    else:
        found = iter(fetch.found)
        for part in offer.parts:
            if part.digest in kept:
                draft.keep(kept[part.digest])
                continue
            digest, size = next(found)
            if part.media_type is None:
                yield from draft.add_blob(digest, size)
            else:
                draft.files.append(Layer(part.media_type, digest, size))
    if offer.modelfile is not None:
        apply(draft, offer.modelfile)
    draft.decision |= {**offer.decision, "source": offer.source}
    return draft


def _kept(context: Context, offer: Offer) -> Kept:
    """Parts of an offer that were split when the model was last pulled: their pieces are here and whole."""
    try:
        model = context.catalog.find(offer.name)
    except StoreFailed:
        return {}
    kept: Kept = {}
    for layer in model.manifest.layers if model else ():
        if origin := layer.annotations.get("origin"):
            kept.setdefault(origin, []).append(layer)
    return {
        origin: layers
        for origin, layers in kept.items()
        if model and all(_whole(model, layer) for layer in layers) and origin in {part.digest for part in offer.parts}
    }


def _to_split(context: Context, manifest: bytes, kept: Kept) -> bool:
    """Whether a model layer is an upstream file with its head inside."""
    model = Manifest.from_bytes(manifest).first(media.MODEL)
    if model is None:
        return False
    return model.digest in kept or needs_split(read_header(context.catalog.blobs.path(model.digest)))


def _whole(model: StoredModel, layer: Layer) -> bool:
    path = model.blobs.path(layer.digest)
    return path.is_file() and path.stat().st_size == layer.size
