"""What lies on this machine already: a GGUF, a folder of them, a file inside an installed Python package."""

from __future__ import annotations

from pathlib import Path

from localdecide.core.errors import StoreFailed
from localdecide.store.places import SHARD, gguf_files, is_package, package_file
from localdecide.store.sources.base import Offer, Part
from localdecide.store.sources.url import name_of


def offer(path: Path, reference: str) -> Offer:
    """The GGUF, or all GGUFs of the folder. Raises StoreFailed."""
    files = gguf_files(path)
    shards = bool(SHARD.fullmatch(files[0].name))
    return Offer(reference, name_of(path.name), [Part(file.name, path=file) for file in files], shards=shards)


def package_offer(reference: str, install: str | None = None) -> Offer:
    """The file of `package:NAME/path`. Raises ModelNotFound with what to install."""
    if not is_package(reference):
        raise StoreFailed(f"{reference} is not package:NAME/path")
    path = package_file(reference, install)
    return Offer(reference, name_of(path.name), [Part(path.name, path=path)])
