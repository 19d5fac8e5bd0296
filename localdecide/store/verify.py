"""Reading every byte of installed models again, and getting anew what has gone bad."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any

from localdecide.core.errors import Cancelled, DigestMismatch, LocaldecideError, ModelNotFound
from localdecide.store import manifests as media
from localdecide.store.blobs import disk_errors
from localdecide.store.catalog import StoredModel
from localdecide.store.download.partial import PIECE, Identity, Partial
from localdecide.store.fetch import Fetch, key_of
from localdecide.store.manifests import Layer
from localdecide.store.pull import bring
from localdecide.store.sources.base import Context, Offer, Part
from localdecide.store.sources.choose import offer_for

Progress = Iterator[dict[str, Any]]
_TICK = 0.06


def verify(context: Context, request: Mapping[str, Any], stop: threading.Event) -> Progress:
    """Hash the blobs of one model or of all. request: `model` (optional), `repair` (default true),
    `insecure` (reach the registry that a name means over plain http).

    A damaged or missing blob is got anew from where the model came from: of a damaged one only the parts that
    differ are replaced. Ends with `{"status": "success", "checked": n, "repaired": n}`, or raises DigestMismatch
    that names every model still damaged.
    """
    name = request.get("model")
    models = [context.catalog.get(str(name))] if name else context.catalog.list()
    good: set[str] = set()
    bad: dict[str, str] = {}
    repaired = 0
    for model in models:
        for layer in (model.manifest.config, *model.manifest.layers):
            if layer.digest in good or layer.digest in bad:
                continue
            if (yield from _sound(model, layer, stop)):
                good.add(layer.digest)
                continue
            yield {"status": f"damaged: {layer.digest} of {model.name}", "digest": layer.digest}
            try:
                if request.get("repair", True) is not True:
                    raise DigestMismatch("repair was not asked for")
                yield from _repair(context, model, layer, stop)
                good.add(layer.digest)
                repaired += 1
            except Cancelled:
                raise
            except LocaldecideError as error:
                bad[layer.digest] = f"{model.name}: {layer.digest[:19]}: {error.message}"
    if bad:
        raise DigestMismatch("still damaged: " + "; ".join(bad.values()), {"damaged": sorted(bad)})
    yield {"status": "success", "checked": len(good), "repaired": repaired}


def _sound(model: StoredModel, layer: Layer, stop: threading.Event) -> Generator[dict[str, Any], None, bool]:
    """Whether the blob's bytes are what its name says."""
    hasher, done, reported = hashlib.sha256(), 0, 0.0
    line = {"status": f"verifying {layer.digest[7:19]}", "digest": layer.digest, "total": layer.size}
    try:
        with model.blobs.path(layer.digest).open("rb") as file:
            while data := file.read(1 << 20):
                if stop.is_set():
                    raise Cancelled("the check was cancelled")
                hasher.update(data)
                done += len(data)
                if time.monotonic() - reported > _TICK:
                    reported = time.monotonic()
                    yield {**line, "completed": done}
    except OSError:
        return False
    yield {**line, "completed": done}
    return f"sha256:{hasher.hexdigest()}" == layer.digest


def _repair(context: Context, model: StoredModel, layer: Layer, stop: threading.Event) -> Progress:
    """Fetch one blob again. Raises what its source raises."""
    reference = None if model.decision.get("library") is None else str(model.name)
    source = reference or str(
        model.decision.get("source") or f"{'http://' if context.insecure else ''}{model.name.full}"
    )
    offer = offer_for(source, context)
    part = next((part for part in offer.parts if part.digest == layer.digest), None)
    if part is None and len(offer.parts) == 1 and offer.parts[0].digest is None:
        found = offer.parts[0]
        part = Part(found.name, layer.digest, layer.size, layer.media_type, found.origin, found.path)
    if part is None and model.manifest.of(media.ORIGIN):  # cut from a file that is fetched and cut again
        context.catalog.blobs.remove(layer.digest)
        whole = replace(offer, name=model.name, decision=dict(model.decision))
        for line in bring(context, whole, stop):
            if line["status"] != "success":
                yield line
        return
    if part is None:
        raise ModelNotFound(f"{source} does not offer this file any more")
    with context.catalog.locks.writing() as claim:
        claim(layer.digest)
        _set_aside(context, part)
        yield from Fetch(context, claim, stop).run(Offer(source, model.name, [part]))


def _set_aside(context: Context, part: Part) -> None:
    """Turn a damaged blob into a partial: its download replaces what is wrong and keeps the rest."""
    assert part.digest is not None
    blob = context.catalog.blobs.path(part.digest)
    partial = Partial(context.catalog.root / "partials", key_of(part))
    with disk_errors(partial.folder):
        if not blob.is_file():
            return
        size = blob.stat().st_size
        if part.path is not None or size != part.size or blob.stat().st_nlink > 1:
            blob.unlink()  # shared bytes must not be changed, and other sizes cannot be mended
            return
        partial.open()
        try:
            partial.begin(Identity(size, None, part.name))
            lease = partial.lease()
            with blob.open("rb") as file:
                for index in range(-(-size // PIECE)):
                    partial.write(index, file.read(PIECE), lease)
        finally:
            partial.close()
        os.unlink(blob)
