"""Pushing a model to an Ollama-style registry: the blobs it lacks, then the manifest."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from localdecide.core import names
from localdecide.core.errors import Cancelled, InvalidName, SourceFailed
from localdecide.store import manifests as media
from localdecide.store.manifests import Layer
from localdecide.store.sources.base import Context
from localdecide.store.sources.registry import Registry

CHUNK = 16 << 20

Progress = Iterator[dict[str, Any]]


def push(context: Context, request: Mapping[str, Any], stop: threading.Event) -> Progress:
    """Ollama's progress of `/api/push`. request: `model`, whose host and namespace say where to.

    Raises InvalidName, ModelNotFound, Offline, SourceFailed, Cancelled.
    """
    text = request.get("model")
    if not isinstance(text, str) or not names.is_valid(text):
        raise InvalidName("invalid model name", {"name": text})
    name = names.parse(text)
    yield {"status": "retrieving manifest"}
    model = context.catalog.get(text)
    registry = Registry(context.net, name, insecure=context.insecure)
    layers = {layer.digest: layer for layer in (*model.manifest.layers, model.manifest.config)}
    for layer in layers.values():
        yield from _blob(context, registry, layer, stop)
    yield {"status": "pushing manifest"}
    url = f"{registry.base}/manifests/{name.tag}"
    response = registry.request("PUT", url, content=model.raw, headers={"Content-Type": media.MANIFEST})
    if response.status_code == 404:
        raise SourceFailed(f"{name.host}: takes no model called {name}", {"source": name.host})
    yield {"status": "success"}


def _blob(context: Context, registry: Registry, layer: Layer, stop: threading.Event) -> Progress:
    line = {"status": f"pushing {layer.digest[7:19]}", "digest": layer.digest, "total": layer.size}
    there = registry.request("HEAD", f"{registry.base}/blobs/{layer.digest}")
    if there.status_code == 200:
        yield {**line, "completed": layer.size}
        return
    yield line
    begun = registry.request("POST", f"{registry.base}/blobs/uploads/", headers={"Content-Length": "0"})
    address = _next(registry, begun)
    sent = 0
    with context.catalog.blobs.path(layer.digest).open("rb") as file:
        while data := file.read(CHUNK):
            if stop.is_set():
                raise Cancelled("the push was cancelled")
            span = f"{sent}-{sent + len(data) - 1}"
            headers = {"Content-Type": "application/octet-stream", "Content-Range": span}
            address = _next(registry, registry.request("PATCH", address, content=data, headers=headers))
            sent += len(data)
            yield {**line, "completed": sent}
    joiner = "&" if urlsplit(address).query else "?"
    done = registry.request("PUT", f"{address}{joiner}digest={layer.digest}", headers={"Content-Length": "0"})
    if done.status_code == 404:
        raise SourceFailed(f"{registry.name.host}: lost the upload of {layer.digest[:19]}")


def _next(registry: Registry, response: Any) -> str:
    """Where the upload goes on; a registry may answer with a path."""
    if response.status_code == 404 or "location" not in response.headers:
        raise SourceFailed(f"{registry.name.host}: takes no uploads of {registry.name.namespace}/{registry.name.model}")
    return urljoin(str(response.request.url), str(response.headers["location"]))
