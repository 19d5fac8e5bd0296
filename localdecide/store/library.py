"""The library: `modelfiles/NAME/Modelfile`, models that are known by name before they are installed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from localdecide.core import names
from localdecide.core.errors import DiskFull, ModelNotFound, StoreFailed, StoreNotWritable
from localdecide.core.modelfile import Modelfile, decode_modelfile, parse_modelfile
from localdecide.core.names import ModelName
from localdecide.store.catalog import Catalog, StoredModel, not_found
from localdecide.store.create import apply
from localdecide.store.draft import Draft
from localdecide.store.places import is_package, package_file


@dataclass(frozen=True)
class LibraryEntry:
    """One model of the library.

    tags: source and size in bytes (0: not said) by tag; `latest` is the Modelfile's FROM.
    stamp: changes when the Modelfile does.
    """

    name: str
    modelfile: Modelfile
    stamp: str
    folder: Path

    @cached_property
    def tags(self) -> Mapping[str, tuple[str, int]]:
        return {names.TAG: (self.modelfile.sources[0], self.modelfile.size), **self.modelfile.tags}

    @property
    def description(self) -> str:
        return self.modelfile.last("description") or ""

    @property
    def family(self) -> str:
        return self.modelfile.last("family") or ""

    @property
    def license(self) -> str:
        """The first line of each licence."""
        return ", ".join(text.strip().splitlines()[0] for text in self.modelfile.every("license") if text.strip())

    @property
    def card(self) -> str:
        """The text of its README.md; empty if it has none."""
        path = self.folder / "README.md"
        return path.read_text(encoding="utf-8") if path.is_file() else ""


class Library:
    """The folder of the library. Read again for every question: it is small and may be edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def entries(self) -> list[LibraryEntry]:
        """All entries by name. Raises InvalidModelfile for one that cannot be read."""
        return [entry for path in sorted(self.folder.glob("*/Modelfile")) if (entry := self._read(path))]

    def find(self, name: ModelName) -> LibraryEntry | None:
        """The entry a name means, if it has that tag."""
        if (name.host, name.namespace) != (names.HOST, names.NAMESPACE):
            return None
        entry = self._read(self.folder / name.model.lower() / "Modelfile")
        return entry if entry and name.tag in entry.tags else None

    def resolve(self, text: str, catalog: Catalog) -> StoredModel:
        """See `Store.resolve`."""
        name = names.parse(text)
        model, entry = catalog.find(name), self.find(name)
        if entry is None:
            return model or catalog.get(text, (entry.name for entry in self.entries()))
        if model and model.decision.get("library") in (None, entry.stamp):
            return model
        try:
            return self._made(text, name, model, entry, catalog)
        except (StoreNotWritable, DiskFull):
            if model:  # the older form of it still works
                return model
            raise

    def _made(
        self, text: str, name: ModelName, model: StoredModel | None, entry: LibraryEntry, catalog: Catalog
    ) -> StoredModel:
        """The model as the entry describes it; as it is where that cannot be had here."""
        source, _ = entry.tags[name.tag]
        if not is_package(source):
            if model:
                return redress(catalog, model, entry) if same_source(model.decision.get("source"), source) else model
            raise not_found(text, [], library=True, pull=f"localdecide pull {text}")
        try:
            path = package_file(source, entry.modelfile.last("install"))
        except (ModelNotFound, StoreFailed) as error:
            if model:
                return model
            raise type(error)(f"model '{text}': {error.message}", {**error.details, "library": True}) from None
        return materialise(catalog, name, entry, path)

    def _read(self, path: Path) -> LibraryEntry | None:
        try:
            data = path.read_bytes()
        except OSError:
            return None
        modelfile = parse_modelfile(decode_modelfile(data))
        return LibraryEntry(path.parent.name, modelfile, hashlib.sha256(data).hexdigest(), path.parent)


def same_source(known: object, source: str) -> bool:
    """Whether a model came from where the library says it comes from now."""
    if not isinstance(known, str):
        return False
    one, other = (names.parse(text).full if names.is_valid(text) else text for text in (known, source))
    return one == other


def redress(catalog: Catalog, model: StoredModel, entry: LibraryEntry) -> StoredModel:
    """Give an installed model what the library's Modelfile says now; its files stay. Raises StoreFailed."""
    with catalog.locks.writing() as claim:
        draft = Draft(catalog, claim)
        draft.inherit(model)
        draft.decision = {"library": entry.stamp, "source": model.decision["source"]}
        apply(draft, entry.modelfile)
        for _ in draft.write(model.name):
            pass
    for _ in draft.written():
        pass
    return catalog.get(str(model.name))


def materialise(catalog: Catalog, name: ModelName, entry: LibraryEntry, path: Path) -> StoredModel:
    """Install a library model from a GGUF on this machine. Raises BadModelFile, StoreFailed."""
    with catalog.locks.writing() as claim:
        draft = Draft(catalog, claim)
        for _ in draft.add_gguf(path):
            pass
        apply(draft, entry.modelfile)
        draft.decision["library"] = entry.stamp
        for _ in draft.write(name):
            pass
    for _ in draft.written():
        pass
    return catalog.get(str(name))
