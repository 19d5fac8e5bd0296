"""What every source offers: a list of files and how to get them, before a byte of them is fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localdecide.core.modelfile import Modelfile
from localdecide.core.names import ModelName
from localdecide.store.catalog import Catalog
from localdecide.store.download.net import Net
from localdecide.store.download.origin import Origin
from localdecide.store.library import Library


@dataclass(frozen=True)
class Part:
    """One file of an offer.

    name: for people. digest, size: of the bytes, None if the source does not say.
    media_type: its role; None for a GGUF, which says itself whether it is a model or a projector.
    reference: what tells the file from others where its digest is not known (default: its name).
    origin: makes the connection; called only if the file is not here. path: where it lies on this machine.
    """

    name: str
    digest: str | None = None
    size: int | None = None
    media_type: str | None = None
    origin: Callable[[], Origin] | None = None
    path: Path | None = None
    reference: str = ""


@dataclass(frozen=True)
class Offer:
    """What a source has under a reference.

    source: the reference that leads here again; kept with the model for `verify`.
    name: what the model is called unless the caller says otherwise.
    manifest: the exact bytes of an Ollama manifest that names all parts, or None.
    modelfile: what is to be said about the model beside its files, or None.
    shards: whether the GGUF parts are pieces of one file, in order.
    """

    source: str
    name: ModelName
    parts: Sequence[Part]
    manifest: bytes | None = None
    modelfile: Modelfile | None = None
    shards: bool = False
    decision: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """What sources work with. ollama: roots of Ollama stores on this machine; insecure: plain http is allowed;
    remote: whoever asks sits at another machine and may not name files of this one."""

    catalog: Catalog
    library: Library
    net: Net
    ollama: tuple[Path, ...] = ()
    insecure: bool = False
    remote: bool = False
