"""A GGUF at an URL: `https://host/path/x.gguf`, perhaps with `#sha256=<64 hex>`."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from localdecide.core.errors import InvalidRequest
from localdecide.core.names import ModelName
from localdecide.store.blobs import hex_of
from localdecide.store.download.origin import HttpOrigin
from localdecide.store.sources.base import Context, Offer, Part


def is_url(reference: str) -> bool:
    """Whether a reference is an URL of a file and not a model's name with a scheme."""
    parts = urlsplit(reference)
    path = parts.path.lower()
    return parts.scheme in ("http", "https") and bool(parts.fragment or parts.query or path.endswith(".gguf"))


def offer(reference: str, context: Context) -> Offer:
    """Raises InvalidRequest for a malformed digest or an URL without a host; Offline."""
    parts = urlsplit(reference)
    context.net.check(reference)
    if not parts.netloc:
        raise InvalidRequest.at(("model",), f"{reference} names no host")
    digest = None
    if parts.fragment:
        kind, _, value = parts.fragment.partition("=")
        if kind != "sha256":
            raise InvalidRequest.at(("model",), f"#{parts.fragment} is not #sha256=<64 hex digits>")
        digest = f"sha256:{hex_of(f'sha256:{value.lower()}')}"
    url = parts._replace(fragment="").geturl()
    name = unquote(parts.path.rpartition("/")[2]) or parts.netloc
    part = Part(name, digest, origin=lambda: HttpOrigin(context.net, url), reference=url)
    # A password in the address is for this pull alone: the source is kept with the model and shown.
    source = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return Offer(source, name_of(name), [part])


def name_of(file: str) -> ModelName:
    """A model name made from a file's name: `My Model-Q4_K_M.gguf` is `my-model-q4_k_m`."""
    stem = re.sub(r"\.gguf$", "", file, flags=re.IGNORECASE)
    clean = re.sub(r"[^a-z0-9_.-]+", "-", stem.lower()).strip("-.")[:80]
    return ModelName(clean or "model")
